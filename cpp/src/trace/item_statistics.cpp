// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "msprobe/trace_compare.h"
#include "trace/item_text.h"

namespace msprobe::trace {

std::array<StatisticDifference, 4> subtract(const StatisticNumbers& left, const StatisticNumbers& right) {
  std::array<StatisticDifference, 4> result;
  for (std::size_t i = 0; i < result.size(); ++i) {
    Metric& difference = result[i].difference;
    difference.state = Metric::State::kNotApplicable;
    const auto ours = left[i], theirs = right[i];
    if (!ours || !theirs) continue;
    difference.value = *ours - *theirs;
    difference.state = std::isnan(difference.value) ? Metric::State::kNan : Metric::State::kNumber;
    if (difference.number() && *theirs != 0) result[i].relative = std::abs(difference.value / *theirs);
  }
  return result;
}

StatisticsPair compare_statistics(const Trace& left_trace, const Item& left, const Trace& right_trace,
                                  const Item* right) {
  StatisticsPair result;
  const auto read = [](const Trace& trace, const auto& scalars, auto& numbers) {
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = trace.number(scalars[i]);
  };
  result.left = statistics_of(left_trace, left);
  read(left_trace, result.left, result.left_numbers);
  if (right != nullptr) {
    result.right = statistics_of(right_trace, *right);
    read(right_trace, result.right, result.right_numbers);
  }
  result.differences = subtract(result.left_numbers, result.right_numbers);
  return result;
}

}  // namespace msprobe::trace

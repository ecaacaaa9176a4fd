// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "msprobe/trace_compare.h"
#include "trace/item_text.h"

namespace msprobe::trace {

StatisticsPair compare_statistics(const Trace& left_trace, const Item& left, const Trace& right_trace,
                                  const Item* right) {
  StatisticsPair result;
  for (StatisticDifference& one : result.differences) one.difference.state = Metric::State::kNotApplicable;
  const auto read = [](const Trace& trace, const auto& scalars, auto& numbers) {
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = trace.number(scalars[i]);
  };
  result.left = statistics_of(left_trace, left);
  read(left_trace, result.left, result.left_numbers);
  if (right == nullptr) return result;
  result.right = statistics_of(right_trace, *right);
  read(right_trace, result.right, result.right_numbers);
  for (std::size_t i = 0; i < result.differences.size(); ++i) {
    const auto left_number = result.left_numbers[i], right_number = result.right_numbers[i];
    if (!left_number || !right_number) continue;
    Metric& difference = result.differences[i].difference;
    difference.value = *left_number - *right_number;
    difference.state = std::isnan(difference.value) ? Metric::State::kNan : Metric::State::kNumber;
    if (difference.number() && *right_number != 0) {
      result.differences[i].relative = std::abs(difference.value / *right_number);
    }
  }
  return result;
}

}  // namespace msprobe::trace

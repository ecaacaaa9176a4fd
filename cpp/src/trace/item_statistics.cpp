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
  result.left = statistics_of(left_trace, left);
  if (right != nullptr) result.right = statistics_of(right_trace, *right);
  for (std::size_t i = 0; i < result.left.size(); ++i) {
    const Scalar& ours = result.left[i];
    const Scalar& theirs = result.right[i];
    result.left_numbers[i] = left_trace.number(ours);
    const bool same = ours.kind == theirs.kind && left_trace.text(ours) == right_trace.text(theirs);
    result.right_numbers[i] = same ? result.left_numbers[i] : right_trace.number(theirs);
  }
  result.differences = subtract(result.left_numbers, result.right_numbers);
  return result;
}

}  // namespace msprobe::trace

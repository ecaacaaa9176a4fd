// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "msprobe/trace_compare.h"
#include "trace/item/item_text.h"

namespace msprobe::trace {

std::array<StatisticDifference, 4> subtract(const StatisticNumbers& target,
                                            const StatisticNumbers& reference) {
  std::array<StatisticDifference, 4> result;
  for (std::size_t i = 0; i < result.size(); ++i) {
    Metric& difference = result[i].difference;
    difference.state = Metric::State::kNotApplicable;
    const auto ours = target[i], theirs = reference[i];
    if (!ours || !theirs) continue;
    difference.value = *ours - *theirs;
    difference.state = std::isnan(difference.value) ? Metric::State::kNan : Metric::State::kNumber;
    if (difference.number() && *theirs != 0) result[i].relative = std::abs(difference.value / *theirs);
  }
  return result;
}

StatisticsPair compare_statistics(const Trace& target_trace, const Item& target, const Trace& reference_trace,
                                  const Item* reference) {
  StatisticsPair result;
  result.target = statistics_of(target_trace, target);
  if (reference != nullptr) result.reference = statistics_of(reference_trace, *reference);
  for (std::size_t i = 0; i < result.target.size(); ++i) {
    const Scalar& ours = result.target[i];
    const Scalar& theirs = result.reference[i];
    result.target_numbers[i] = target_trace.number(ours);
    const bool same = ours.kind == theirs.kind && target_trace.text(ours) == reference_trace.text(theirs);
    result.reference_numbers[i] = same ? result.target_numbers[i] : reference_trace.number(theirs);
  }
  result.differences = subtract(result.target_numbers, result.reference_numbers);
  return result;
}

}  // namespace msprobe::trace

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "msprobe/graph.h"

namespace msprobe::graph {

/// What kind of thing a parameter is. Those of one group are paired in their order.
enum class Group : std::uint8_t { kInput, kOutput, kWeight, kGradient };

inline Group group_of(const Parameter& parameter) noexcept {
  switch (parameter.item->part) {
    case trace::Item::Part::kOutput: return Group::kOutput;
    case trace::Item::Part::kParameters: return Group::kWeight;
    case trace::Item::Part::kGradients: return Group::kGradient;
    default: return Group::kInput;
  }
}

/// For each of `ours` its counterpart among `theirs`, or null: the n-th of its group.
inline std::vector<const Parameter*> pair_parameters(const std::vector<Parameter>& ours,
                                                     const std::vector<Parameter>& theirs) {
  std::vector<const Parameter*> result(ours.size());
  std::array<std::size_t, 4> next{};  // by group: where among theirs to go on
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const Group group = group_of(ours[i]);
    std::size_t& at = next[static_cast<std::size_t>(group)];
    while (at < theirs.size() && group_of(theirs[at]) != group) ++at;
    if (at < theirs.size()) result[i] = &theirs[at++];
  }
  return result;
}

/// The statistics of two parameters, merged ones in place of those of the files. `other`: null without a
/// counterpart.
trace::StatisticsPair statistics_of(const Parameter& parameter, const Parameter* other);

/// Whether mindstudio-probe shows the value as text, not as a number: a rank that a communication goes to or
/// comes from, a group.
bool is_shown_as_text(const Parameter& parameter);

}  // namespace msprobe::graph

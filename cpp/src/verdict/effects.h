// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// R8: what has no distance of its own, an argument, a setting, calls of one run, is suspect when the first
/// place behind it that has one is.

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "verdict/calls.h"
#include "verdict/unpaired.h"

namespace msprobe::verdict {

/// What is known of a record that both runs have.
struct Outcome {
  double entered = 0, likely = 0;  // the distance of what goes in: what to reckon with, and most likely
  double excess = 0;               // of the result that is farthest beyond its tolerance
  double visible = 0;              // the same of what is known to differ
  bool has_result = false;
  bool in_is_equal = true;
  bool out_is_equal = true;

  /// What comes of another argument: of equal tensors it makes every difference.
  double effect() const noexcept { return in_is_equal && !out_is_equal ? kInfinity : visible; }
};

class Effects {
 public:
  Effects(const Calls& calls, const Unpaired& unpaired)
      : calls_(calls), unpaired_(unpaired), outcomes_(calls.count()), of_groups_(unpaired.groups().size()) {}

  /// Of a record of the target; filled in by who looks at it.
  Outcome& operator[](std::uint32_t record) { return outcomes_[record]; }
  const Outcome& operator[](std::uint32_t record) const { return outcomes_[record]; }

  /// In the results of a call, or in those of its backward pass.
  double in_call(std::uint32_t record) const;
  /// In the result of the innermost module around that both runs have; without one, in what the next calls
  /// get.
  double around(std::string_view module, bool of_reference, double order) const;

  /// What is computed from the results of a group of calls of one run.
  void note(std::uint32_t group, double effect);
  std::optional<double> noted(std::uint32_t group) const { return of_groups_[group]; }
  /// Where these are taken by others of this run only, what comes of those.
  double of_group(std::uint32_t group);

 private:
  const Calls& calls_;
  const Unpaired& unpaired_;
  std::vector<Outcome> outcomes_;  // by record
  std::vector<std::optional<double>> of_groups_;
  std::unordered_set<std::uint32_t> looked_at_;  // groups
};

}  // namespace msprobe::verdict

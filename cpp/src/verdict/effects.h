// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// R8: what has no distance of its own, an argument, a setting, calls of one run, is suspect when the first
/// place behind it that has one is.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "verdict/calls.h"

namespace msprobe::verdict {

/// What is known of a record that both runs have.
struct Outcome {
  double entered = 0;  // the distance of what goes in
  double excess = 0;   // of the result that is farthest beyond its tolerance
  double visible = 0;  // the same, of a module by what goes into it
  double later = 0;    // the same of what may come of it in a later step
  bool has_result = false;
  bool in_is_equal = true;
  bool out_is_equal = true;
  bool arrives = false;  // what differs of the result is no farther off than losses and gradients
  bool has_other_arguments = false;
  bool has_other_tensors = false;  // one is beyond its tolerance, or taken from another place

  /// What comes of another argument. One that `decides` what is made of equal tensors, as a number or a word
  /// does, makes every difference; a mask of another dtype, or a flag in place of a mask, may have another
  /// kernel make the same of them, but for rounding. Infinite: there is a difference, and its size says
  /// nothing.
  double effect(bool decides) const noexcept {
    return decides && in_is_equal && !out_is_equal && visible < 1 ? kInfinity : visible;
  }
};

class Effects {
 public:
  explicit Effects(const Calls& calls) : calls_(calls), outcomes_(calls.count()) {}

  /// Of a record of the target; filled in by who looks at it.
  Outcome& operator[](std::uint32_t record) { return outcomes_[record]; }
  const Outcome& operator[](std::uint32_t record) const { return outcomes_[record]; }

  /// In the results of a call, or in those of its backward pass.
  double in_call(std::uint32_t record, bool decides) const;
  /// Another argument alone makes the results of a call, or those of its backward pass, differ, and what
  /// differs arrives: equal tensors go in, of which no call with equal arguments makes another result.
  bool is_of_argument(std::uint32_t record);
  /// In the result of the innermost module around that both runs have; without one, in what the calls
  /// from `next` on get.
  double around(std::string_view module, bool of_reference, std::uint32_t next) const;

 private:
  bool find_same_kernels() const;

  const Calls& calls_;
  std::vector<Outcome> outcomes_;             // by record
  std::optional<bool> kernels_are_the_same_;  // when all outcomes are known
};

}  // namespace msprobe::verdict

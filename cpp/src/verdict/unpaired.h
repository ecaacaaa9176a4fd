// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Calls that only one of the runs makes, in groups: one after the other in one module, named after the
/// outermost of them, the first that does more than move elements or make a constant.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "verdict/calls.h"

namespace msprobe::verdict {

struct UnpairedCalls {
  std::string name;
  std::uint32_t first = 0;  // record of its run
  std::uint32_t count = 0;
  std::uint32_t next = 0;    // the record of the target before which they stand, or the first of them
  bool is_missing = false;   // the reference has them
  std::string_view around;   // the module that both runs have
  bool is_update = false;    // they belong to an optimizer
  bool is_handling = false;  // or to what is done with gradients in front of it
  /// Of what is computed from their results, how far it is beyond its tolerance; empty: no call of both runs
  /// takes them.
  std::optional<double> effect;
};

class Unpaired {
 public:
  explicit Unpaired(const Calls& calls);

  const std::vector<UnpairedCalls>& groups() const noexcept { return groups_; }
  std::optional<std::uint32_t> of_target(std::uint32_t record) const { return found(groups_of_[0], record); }
  std::optional<std::uint32_t> of_reference(std::uint32_t record) const {
    return found(groups_of_[1], record);
  }

  /// A call takes what these calls made, and is beyond its tolerance by so much. Where the backward pass goes
  /// on with a difference, they are no update behind it.
  void note(std::uint32_t group, std::uint32_t record, double effect);

  /// Groups of forward calls of one run that take a result of this backward call's forward one. Where several
  /// calls take it, its gradient is the sum of what they give back, which no call makes.
  std::vector<std::uint32_t> takers(std::uint32_t backward) const;

 private:
  struct Outside {
    std::string_view outermost;
    std::string_view around;
  };
  using Groups = std::unordered_map<std::uint32_t, std::uint32_t>;  // by record

  static std::optional<std::uint32_t> found(const Groups& groups, std::uint32_t record);
  static Outside outside(const Run& run, std::string_view call);
  void add(std::uint32_t record, std::uint32_t next, bool is_missing);
  bool is_by_the_way(std::string_view call) const;

  const Calls& calls_;
  std::vector<UnpairedCalls> groups_;
  // Of the target, and of the reference.
  std::optional<std::uint32_t> last_[2];
  Groups groups_of_[2];
};

}  // namespace msprobe::verdict

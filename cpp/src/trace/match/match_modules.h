// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "msprobe/record_name.h"
#include "msprobe/trace_match.h"

namespace msprobe::trace {

/// The calls of modules of one run as a tree: what was called inside of what.
class ModuleTree {
 public:
  struct Call {
    std::string_view callee;  // "Module.blocks.0.mlp.MLP"
    std::string_view place;   // the same without the class, which may differ
    std::string_view count;
    std::uint32_t forward = kNoMatch, backward = kNoMatch;  // records
    std::uint32_t parent = 0;
    bool is_repeated = false;  // runs again in the backward pass
    std::uint64_t words = 0;   // of the texts that it is given; 0: none
    std::vector<std::uint32_t> children = {};
    std::uint32_t match = kNoMatch;  // the call of the other run
  };

  /// `construct`: null, where there is none; then all calls stand below the root.
  ModuleTree(const Trace& trace, const Construct* construct);

  /// Forward and backward are one call. kNoMatch: there is no such call, or `name` is not that of one.
  std::uint32_t find(std::string_view callee, std::string_view count) const;
  std::uint32_t find(const RecordName& name) const;

  Call& operator[](std::uint32_t index) { return calls_[index]; }
  const Call& operator[](std::uint32_t index) const { return calls_[index]; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(calls_.size()); }

  static constexpr std::uint32_t kRoot = 0;  // no call, but what is around all of them

 private:
  std::uint32_t add(std::string_view name);

  std::vector<Call> calls_;
  std::unordered_map<std::string, std::uint32_t> by_name_;  // without the direction
};

/// Pairs the calls of modules from the root down. One module may be called at several places, and its name
/// does not tell at which: it counts. So below each pair of calls, children are paired in the order in which
/// they ran, those that are given the same words first: a program may go through these in any order; where
/// one run calls a module more often than the other, by the calls around. What is left is paired by name,
/// where no pair of calls around is against it.
void match_modules(ModuleTree& target, ModuleTree& reference);

}  // namespace msprobe::trace

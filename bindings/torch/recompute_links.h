// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../held.h"

/// Whether activation checkpointing repeats an earlier call, and which; the number of that, if it is known.
struct Recompute {
  bool is_one = false;
  std::optional<std::int64_t> original;
};

/// Which call of the forward a call repeats that activation checkpointing makes in the backward. Needs the
/// GIL.
///
/// A region is told by what torch keeps of it: without reentrant autograd by the object behind its hooks on
/// saved tensors; with it by the node that stands for the region, whose number is the one before those of the
/// calls inside. In a region the n-th call of a module or function is repeated by the n-th.
class RecomputeLinks {
 public:
  /// A call begins, number `count` of its callee. Remembers it where it may be repeated.
  Recompute begin_call(const void* callee, std::int64_t count);
  /// Numbers begin anew.
  void begin_step();

 private:
  struct Call {
    std::uint64_t sequence;  // of the next node of autograd when it began
    std::int64_t count;
  };
  struct Region {
    Held<> weak;  // reference to the object behind its hooks
    std::unordered_map<const void*, std::vector<std::int64_t>> calls;
  };
  /// One repetition of a region, by one backward.
  struct Run {
    std::uint64_t region;
    int backward;
    const void* callee;
    auto operator<=>(const Run&) const = default;
  };

  void note(const void* callee, std::int64_t count);
  std::optional<std::int64_t> find(const void* callee);
  Region* region_of_hooks();

  std::unordered_map<PyObject*, Region> regions_;
  std::unordered_map<const void*, std::vector<Call>> without_graph_;  // calls in no_grad, in their order
  std::map<Run, std::size_t> done_;                                   // calls repeated so far
  Held<> last_hook_;  // reference to the hook whose region is known
  PyObject* last_region_ = nullptr;
};

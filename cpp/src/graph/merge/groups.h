// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "msprobe/graph.h"
#include "msprobe/graph_merge.h"

/// Which ranks belong together in one dimension of a layout.
namespace msprobe::graph {

using Group = std::vector<int>;

/// The groups of each dimension: each rank is in one group of each, in the order of its parts.
struct Groups {
  std::vector<Group> tp, pp, cp, ep;
};

/// Groups of tp and pp as the ranks communicate, where these fit the layout; the others, and else all, as
/// ranks are numbered.
Groups find_groups(std::span<const Graph> ranks, const ParallelLayout& layout);

/// The groups of one dimension, "tp" for one, as ranks are numbered. `layout` is checked.
std::vector<Group> numbered_groups(const ParallelLayout& layout, std::string_view dimension);

/// The ranks of the first reduction of each rank, each list once; empty when there are none.
/// `in_parallel_modules`: of the first one inside a module that is a part of one, by the name of its class.
std::vector<Group> reducing_groups(std::span<const Graph> ranks, bool in_parallel_modules);

/// Chains of ranks of which each sends to the next; empty when none sends.
std::vector<Group> sending_chains(std::span<const Graph> ranks);

/// Whether these are groups of `size` that hold each of the ranks 0 to `rank_count` - 1 once.
bool covers_ranks(const std::vector<Group>& groups, std::size_t size, std::size_t rank_count);

/// Where ranks stand in the groups of a dimension.
class Places {
 public:
  /// `groups` outlives the object, and holds each rank once.
  explicit Places(const std::vector<Group>& groups);

  /// The rank `distance` behind `rank` in its group; behind the last comes the first. A number that is no
  /// rank stays as it is.
  int behind(int rank, std::size_t distance) const;
  /// The first of its group.
  int first(int rank) const;

 private:
  const std::vector<Group>& groups_;
  std::unordered_map<int, std::pair<std::size_t, std::size_t>> places_;  // group, position
};

}  // namespace msprobe::graph

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/merge/merged_data.h"
#include "msprobe/graph.h"

namespace msprobe::graph {

/// Graphs of ranks that hold parts of the same tensors.
struct Shards {
  Graph& main;
  std::vector<const Graph*> others;
  /// Of a rank on the side of `main` (main's own, or one that was joined with it), that on the side of
  /// others[index].
  std::function<int(std::size_t index, int rank)> counterpart_of_rank;
};

/// Which nodes of several graphs are one, and their data as that of one rank.
class ShardMerge {
 public:
  /// `title` is for the notes: "tensor parallelism(TP)". `shards` outlives the object.
  ShardMerge(const Shards& shards, std::string title);

  /// Whether each of the others has the node, below the same parents.
  bool is_everywhere(NodeId node) const { return !counterparts_[node].empty(); }
  NodeId counterpart(NodeId node, std::size_t other) const { return counterparts_[node][other]; }
  bool is_merged(NodeId node) const { return merged_[node]; }

  enum class Rule {
    kMerge,        // parts of one tensor, if they differ
    kMergeAlways,  // parts of one tensor, also if they are equal
    kKeep,         // copies of one tensor: as on the first rank
    kPartOfSum     // as kKeep; where they differ, a note says that they are summands
  };
  using Choice = std::function<Rule(const Parameter& parameter, std::string_view label)>;

  /// Merges the data of a node that is_everywhere(). True when something was changed or noted.
  bool merge(NodeId node, const Choice& inputs, const Choice& outputs);
  bool merge(NodeId node);  // all of it with kMerge
  /// Puts the first result of the call `reduction`, which is everywhere, in place of that of `node`; of one
  /// that leaves each rank a part, the whole.
  void take_reduced(NodeId node, NodeId reduction);

  /// Whether the parameter is the same on all ranks.
  bool is_copied(NodeId node, const Parameter& parameter, std::size_t position, bool is_output) const;

 private:
  void find_counterparts();
  std::vector<int> ranks_of(NodeId node) const;

  const Shards& shards_;
  std::string title_;
  std::vector<std::vector<NodeId>>
      counterparts_;  // by node of main, one for each other; empty: not everywhere
  std::vector<bool> merged_;
};

/// A part of the training that is no module of the model, and that each rank has for itself.
bool is_of_the_loop(std::string_view name);

/// Whether tensors of a node may be parts of larger ones: it is inside a module that is one of the
/// model, and does not communicate itself.
bool may_hold_parts(const Graph& graph, NodeId node);

}  // namespace msprobe::graph

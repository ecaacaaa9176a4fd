// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/database.h"

namespace msprobe::graph {

/// One side of what is written: a graph, and what its rows need besides.
class GraphRows {
 public:
  /// `other`: the graph of the other side, null for a graph alone. All of them outlive this object.
  GraphRows(const Graph& graph, const Graph* other, const Comparison* comparison, const MatchOptions& match,
            bool is_reference, bool shows_md5);

  const GraphKey& key() const noexcept { return key_; }
  std::size_t size() const noexcept { return order_.size(); }
  /// The stacks of the nodes: number -> JSON, without repetition.
  std::span<const std::string> stacks() const noexcept { return stacks_; }
  std::string stack_id(std::size_t number) const { return key_.id + "_" + std::to_string(number); }

  /// Makes the rows [begin, end), in the order of the file. From any thread.
  std::vector<NodeRow> make(std::size_t begin, std::size_t end) const;

  const Aggregate& whole() const noexcept { return aggregates_[Graph::kRoot]; }

 private:
  void collect_stacks();
  void fill_verdict(NodeId node, NodeRow& row) const;
  std::string link_of(NodeId other) const;

  const Graph& graph_;
  const Graph* const other_;
  const Comparison* const comparison_;
  const MatchOptions& match_;
  const bool is_reference_;
  const bool shows_md5_;
  GraphKey key_;
  std::vector<NodeId> order_;
  std::vector<Aggregate> aggregates_;
  std::vector<std::string> stacks_;
  std::vector<std::uint32_t> stack_of_;  // by place in order_
  std::vector<NodeId>
      reference_counterpart_;  // of reference nodes, as of_reference has none for aligned ones
};

}  // namespace msprobe::graph

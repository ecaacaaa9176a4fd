// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/merge/tensor.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "base/reversed.h"
#include "msprobe/engines.h"
#include "msprobe/record_name.h"

namespace msprobe::graph {
namespace {

using Rule = ShardMerge::Rule;

using engines::Cut;

bool is_call_of(std::string_view module, Cut cut, trace::Direction direction) {
  const trace::RecordName name(module);
  return name.direction() == direction && engines::is_cut(name.type(), cut);
}

bool has(std::string_view name, std::string_view part) { return name.find(part) != std::string_view::npos; }

class Tensors {
 public:
  explicit Tensors(const Shards& shards) : graph_(shards.main), merge_(shards, "tensor parallelism(TP)") {}

  void merge() {
    const auto order = graph_.post_order();
    for (const NodeId node : Reversed(order)) {
      if (!may_hold_parts(graph_, node) || !merge_.is_everywhere(node)) continue;
      const std::string_view name = graph_[node].name;
      const bool sums = is_call_of(name, Cut::kRows, trace::Direction::kForward) ||
                        is_call_of(name, Cut::kColumns, trace::Direction::kBackward);
      if (sums) merge_summands(node);
      if (!merge_.is_merged(node)) merge_.merge(node);
    }
    for (const NodeId node : order) merge_between(node);
  }

 private:
  // Each rank computes a summand of the product, which is reduced afterwards.
  void merge_summands(NodeId layer) {
    for (const NodeId product : graph_[layer].children) {
      if (!has(graph_[product].name, "matmul") || !merge_.is_everywhere(product)) continue;
      const NodeId reduction = reduction_of(layer, product);
      if (reduction == kNoNode) continue;
      merge_.merge(
          product, [](const Parameter&, std::string_view) { return Rule::kMerge; },
          [](const Parameter&, std::string_view) { return Rule::kKeep; });
      merge_.take_reduced(product, reduction);
    }
  }

  // The reduction in `layer` of what `product` computed.
  NodeId reduction_of(NodeId layer, NodeId product) const {
    NodeData data, reduced;
    graph_.read_data(product, data);
    if (data.outputs.empty() || !statistics_of(data.outputs.front())) return kNoNode;
    for (const NodeId child : graph_[layer].children) {
      const std::string_view name = graph_[child].name;
      const bool scatters = has(name, "reduce_scatter");
      if ((!scatters && !has(name, "all_reduce")) || !merge_.is_everywhere(child)) continue;
      graph_.read_data(child, reduced);
      const std::size_t summand = scatters ? 1 : 0;
      if (reduced.inputs.size() > summand && agree(data.outputs.front(), &reduced.inputs[summand], 0))
        return child;
    }
    return kNoNode;
  }

  // From a layer that splits columns to the next sibling that splits rows each tensor is a part.
  void merge_between(NodeId parent) {
    const auto& children = graph_[parent].children;
    const auto is_columns = [this](NodeId node) {
      return is_call_of(graph_[node].name, Cut::kColumns, trace::Direction::kForward);
    };
    const auto is_rows = [this](NodeId node) {
      return is_call_of(graph_[node].name, Cut::kRows, trace::Direction::kForward);
    };
    for (auto first = children.begin(); first != children.end();) {
      first = std::find_if(first, children.end(), is_columns);
      if (first == children.end()) return;
      const auto last = std::find_if(first, children.end(), is_rows);
      if (last == children.end()) return;
      merge_ends(*first, *last);
      for (auto node = first + 1; node != last; ++node) merge_below(*node);
      first = last + 1;
    }
  }

  void merge_ends(NodeId columns, NodeId rows) {
    const auto but_first = [](const Parameter&, std::string_view label) {
      return label == "input.0" ? Rule::kKeep : Rule::kMergeAlways;
    };
    const auto but_bias = [](const Parameter&, std::string_view label) {
      return label == "parameters.bias" ? Rule::kKeep : Rule::kMergeAlways;
    };
    const auto all = [](const Parameter&, std::string_view) { return Rule::kMergeAlways; };
    const auto none = [](const Parameter&, std::string_view) { return Rule::kKeep; };
    merge_rest(columns, but_first, all);
    merge_rest(rows, but_bias, none);
    for (const NodeId child : graph_[columns].children) {
      if (has(graph_[child].name, "matmul")) merge_rest(child, but_first, all);
    }
    for (const NodeId child : graph_[rows].children) {
      if (has(graph_[child].name, "matmul")) merge_rest(child, all, none);
    }
  }

  void merge_below(NodeId top) {
    const auto all = [](const Parameter&, std::string_view) { return Rule::kMergeAlways; };
    std::vector<NodeId> open = {top};
    for (std::size_t next = 0; next < open.size(); ++next) {
      merge_rest(open[next], all, all);
      const auto& children = graph_[open[next]].children;
      open.insert(open.end(), children.begin(), children.end());
    }
  }

  void merge_rest(NodeId node, const ShardMerge::Choice& inputs, const ShardMerge::Choice& outputs) {
    if (may_hold_parts(graph_, node) && merge_.is_everywhere(node) && !merge_.is_merged(node)) {
      merge_.merge(node, inputs, outputs);
    }
  }

  Graph& graph_;
  ShardMerge merge_;
};

}  // namespace

void merge_tensor(const Shards& shards) {
  if (!shards.others.empty()) Tensors(shards).merge();
}

}  // namespace msprobe::graph

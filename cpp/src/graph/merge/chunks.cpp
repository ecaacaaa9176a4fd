// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph/merge/import.h"
#include "graph/merge/layers.h"
#include "graph/merge/pipeline.h"
#include "msprobe/record_name.h"

namespace msprobe::graph {
namespace {

// Virtual pipelines: the model of a rank is a list of chunks, each with some of the layers.
class Chunks {
 public:
  Chunks(Graph& graph, std::span<const NodeId> containers, int count) : graph_(graph), count_(count) {
    if (containers.empty()) return;
    prefix_ = trace::RecordName(graph[containers.front()].name).prefix();
    // What is above split layers in one chunk is above layers in each: one may have its layers on a single
    // stage.
    std::unordered_set<NodeId> seen;
    for (const NodeId node : containers) {
      const NodeId first = graph.find(to_first_chunk(graph[node].name)(graph[node].name));
      if (first != kNoNode && graph[first].name.starts_with(prefix_of(0)) && seen.insert(first).second)
        containers_.push_back(first);
    }
  }

  void merge() {
    for (const NodeId node : containers_) {
      for (int chunk = 1; chunk < count_; ++chunk) take_from(node, chunk);
      name_children(node);
    }
    graph_.rename(names_);
  }

 private:
  // "Module.1."
  std::string prefix_of(int chunk) const { return prefix_ + "." + std::to_string(chunk) + "."; }

  void take_from(NodeId node, int chunk) {
    const Renaming to_first = {prefix_of(chunk), prefix_of(0)};
    const NodeId other = graph_.find(Renaming{to_first.to, to_first.from}(graph_[node].name));
    if (other == kNoNode) return;
    const bool backward = trace::RecordName(graph_[node].name).is_backward();
    hand_over(node, other, backward);
    std::vector<NodeId> moved;
    for (const NodeId child : std::exchange(graph_[other].children, {})) {
      const bool stays_behind = has_counterpart(child, to_first) || is_in_later_chunk(child, chunk);
      graph_[child].parent = stays_behind ? kNoNode : node;
      if (!stays_behind) moved.push_back(child);
    }
    auto& children = graph_[node].children;
    children.insert(backward ? children.begin() : children.end(), moved.begin(), moved.end());
    graph_.detach(other);
  }

  // Whether the first chunk has the module too. Layers of equal numbers are different ones.
  bool has_counterpart(NodeId child, const Renaming& to_first) const {
    const Node& node = graph_[child];
    return node.kind != NodeKind::kCall && !parse_layer(node.name) &&
           graph_.find(to_first(node.name)) != kNoNode;
  }

  // Of modules that several chunks have, but not the first one, the last counts.
  bool is_in_later_chunk(NodeId child, int chunk) const {
    const Node& node = graph_[child];
    if (node.kind == NodeKind::kCall || parse_layer(node.name)) return false;
    for (int later = chunk + 1; later < count_; ++later) {
      const NodeId same = graph_.find(Renaming{prefix_of(chunk), prefix_of(later)}(node.name));
      if (same != kNoNode && same != child && graph_[same].parent != kNoNode) return true;
    }
    return false;
  }

  // Results come from the last chunk, and so do gradients.
  void hand_over(NodeId node, NodeId other, bool backward) {
    NodeData data, other_data;
    graph_.read_data(node, data);
    graph_.read_data(other, other_data);
    if (backward) {
      data.inputs = other_data.inputs;
    } else {
      data.outputs = other_data.outputs;
    }
    graph_.set_data(node, std::move(data));
  }

  Renaming to_first_chunk(std::string_view name) const {
    for (int chunk = 1; chunk < count_; ++chunk) {
      if (name.starts_with(prefix_of(chunk))) return {prefix_of(chunk), prefix_of(0)};
    }
    return {};
  }

  void name_children(NodeId node) {
    std::vector<LayerCall> calls;
    std::vector<std::pair<NodeId, Renaming>> layers;
    for (const NodeId child : graph_[node].children) {
      const std::string_view name = graph_[child].name;
      const Renaming renaming = to_first_chunk(name);
      if (const auto layer = parse_layer(name)) {
        calls.push_back({.list = renaming(layer->list), .identity = layer->prefix()});
        layers.emplace_back(child, Renaming{layer->prefix(), {}});
      } else if (!renaming.from.empty()) {
        rename_below(child, renaming);
      }
    }
    const auto numbers = running_numbers(calls, trace::RecordName(graph_[node].name).is_backward());
    for (std::size_t i = 0; i < layers.size(); ++i) {
      auto& [layer, renaming] = layers[i];
      renaming.to = calls[i].list + std::to_string(numbers[i]) + ".";
      if (renaming.from != renaming.to) rename_below(layer, renaming);
    }
  }

  void rename_below(NodeId top, const Renaming& renaming) {
    std::vector<NodeId> open = {top};
    for (std::size_t next = 0; next < open.size(); ++next) {
      const Node& node = graph_[open[next]];
      if (node.name.starts_with(renaming.from)) names_.emplace_back(open[next], renaming(node.name));
      open.insert(open.end(), node.children.begin(), node.children.end());
    }
  }

  Graph& graph_;
  std::string prefix_;              // of all modules
  std::vector<NodeId> containers_;  // of the first chunk
  int count_;
  std::vector<std::pair<NodeId, std::string>> names_;
};

}  // namespace

void merge_chunks(Graph& graph, std::span<const NodeId> containers, int chunk_count) {
  Chunks(graph, containers, chunk_count).merge();
}

}  // namespace msprobe::graph

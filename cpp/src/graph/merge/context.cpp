// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/merge/context.h"

#include <string>

#include "graph/dotted_name.h"

namespace msprobe::graph {
namespace {

using Rule = ShardMerge::Rule;

class Contexts {
 public:
  explicit Contexts(const Shards& shards) : graph_(shards.main), merge_(shards, "context parallelism(CP)") {}

  void merge() {
    // The backward pass first: it looks at the forward pass as the ranks recorded it.
    for (const bool backward : {true, false}) {
      for (const NodeId node : graph_.post_order()) {
        const bool is_forward = direction_of(graph_[node].name) == "forward";
        if (is_forward == backward || !may_hold_parts(graph_, node) || !merge_.is_everywhere(node)) continue;
        merge_node(node, backward);
      }
    }
  }

 private:
  void merge_node(NodeId node, bool backward) {
    const auto part = [](const Parameter& parameter, std::string_view) {
      const bool is_gradient = parameter.item->part == trace::Item::Part::kGradients;
      return is_gradient ? Rule::kPartOfSum : Rule::kMerge;
    };
    const auto result = [this, node, backward](const Parameter& parameter, std::string_view) {
      return backward && is_gradient_of_copy(node, parameter) ? Rule::kPartOfSum : Rule::kMerge;
    };
    merge_.merge(node, part, result);
  }

  // Result i of a backward call is the gradient of argument i.
  bool is_gradient_of_copy(NodeId node, const Parameter& gradient) {
    const NodeId forward = forward_call(graph_[node].name);
    if (forward == kNoNode || !merge_.is_everywhere(forward)) return false;
    graph_.read_data(forward, data_);
    const std::string_view path = gradient.trace->text(gradient.item->path);
    for (std::size_t i = 0; i < data_.inputs.size(); ++i) {
      const Parameter& argument = data_.inputs[i];
      if (argument.item->part != trace::Item::Part::kInputArgs) continue;
      if (argument.trace->text(argument.item->path) != path || !statistics_of(argument)) continue;
      return merge_.is_copied(forward, argument, i, false);
    }
    return false;
  }

  NodeId forward_call(std::string_view name) const {
    const std::string module = with_direction(name, "forward");
    return graph_.find(module.empty() ? std::string(without_parts(name, 1)) + ".forward" : module);
  }

  Graph& graph_;
  ShardMerge merge_;
  NodeData data_;
};

}  // namespace

void merge_context(const Shards& shards) {
  if (!shards.others.empty()) Contexts(shards).merge();
}

}  // namespace msprobe::graph

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/merge/context.h"

#include "graph/merge/differentiated.h"
#include "msprobe/record_name.h"

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
        const bool is_forward = trace::RecordName(graph_[node].name).is_forward();
        if (is_forward == backward || !may_hold_parts(graph_, node) || !merge_.is_everywhere(node)) continue;
        merge_node(node, backward);
      }
    }
  }

 private:
  void merge_node(NodeId node, bool backward) {
    const auto choice = [this, node, backward](bool of_results) {
      return [this, node, backward, of_results](const Parameter& parameter, std::string_view) {
        const bool is_gradient = parameter.item->part == trace::Item::Part::kGradients;
        return is_gradient || (backward && is_gradient_of_copy(node, parameter, of_results))
                   ? Rule::kPartOfSum
                   : Rule::kMerge;
      };
    };
    merge_.merge(node, choice(true), choice(false));
  }

  // What comes into a backward call are gradients of the results, what comes out those of the arguments.
  bool is_gradient_of_copy(NodeId node, const Parameter& gradient, bool of_results) {
    const NodeId forward = forward_node(graph_, graph_[node].name);
    if (forward == kNoNode || !merge_.is_everywhere(forward)) return false;
    graph_.read_data(forward, data_);
    const auto& values = of_results ? data_.outputs : data_.inputs;
    const auto value = find_differentiated(values, gradient);
    return value && merge_.is_copied(forward, values[*value], *value, of_results);
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

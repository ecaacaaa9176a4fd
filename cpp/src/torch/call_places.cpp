// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "torch/call_places.h"

#include <torch/csrc/autograd/variable.h>

#include <algorithm>

namespace msprobe::torch_adapter {

namespace autograd = torch::autograd;
using autograd::Node;

std::pair<NodePtr, std::uint32_t> edge_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.requires_grad()) return {};
  if (tensor.is_inference() || has_stale_node(tensor)) return {};
  if (tensor.is_leaf()) {
    return {autograd::impl::try_get_grad_accumulator(static_cast<const autograd::Variable&>(tensor)), 0};
  }
  return {tensor.grad_fn(), static_cast<std::uint32_t>(tensor.output_nr())};
}

bool has_end(const at::Tensor& output) {
  return output.defined() && output.requires_grad() && !output.is_leaf() && !has_stale_node(output);
}

CallPlaces places_of_call(std::uint64_t first_node, const GradientEdges& starts, const GradientEdges& ends) {
  CallPlaces places;
  places.expected_outputs.resize(ends.size());
  places.expected_inputs.resize(starts.size());
  CallGraph graph(first_node, starts);
  const auto watch = [&](const Node* node) -> WatchedNode& {
    for (WatchedNode& entry : places.nodes) {
      if (entry.node == node) return entry;
    }
    // Hooks are added to a node that others hold as const.
    places.nodes.push_back(
        {const_cast<Node*>(node), {}, {}, false});  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    return places.nodes.back();
  };
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const Node* node = ends[i].first.get();
    WatchedNode& entry = watch(node);
    entry.arriving.push_back({ends[i].second, true, static_cast<std::uint16_t>(i)});
    places.expected_outputs[i] = 1;
    if (graph.is_inside(node)) continue;
    if (const int input = graph.input_at(node, ends[i].second, i); input >= 0) {
      entry.arriving.push_back({ends[i].second, false, static_cast<std::uint16_t>(input)});
      entry.passes_through = true;
      ++places.expected_inputs[static_cast<std::size_t>(input)];
    }
  }
  const auto has_node = [](const auto& start) { return start.first != nullptr; };
  if (std::none_of(starts.begin(), starts.end(), has_node)) return places;  // it may be all of the graph
  Dealer dealer(graph);
  for (const auto& end : ends) {
    graph.for_each_exit(end.first.get(),
                        [&](const Node* node, std::uint32_t edge, const Node* next, std::uint32_t number) {
                          const int input = dealer.input_at(next, number);
                          if (input < 0) return;
                          watch(node).leaving.push_back({edge, false, static_cast<std::uint16_t>(input)});
                          ++places.expected_inputs[static_cast<std::size_t>(input)];
                        });
  }
  return places;
}

}  // namespace msprobe::torch_adapter

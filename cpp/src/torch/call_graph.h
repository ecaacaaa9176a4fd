// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/SmallVector.h>
#include <c10/util/flat_hash_map.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "torch/gradient_edge.h"

/// The part of autograd's graph that one call made.
namespace msprobe::torch_adapter {

/// Where gradients of tensors go: output number of a node, null where there is none.
using GradientEdges = c10::SmallVector<std::pair<NodePtr, std::uint32_t>, 6>;

/// A set of nodes: most calls make one or two, a module may make thousands.
class NodeSet {
 public:
  // False when it was there.
  bool insert(const torch::autograd::Node* node) {
    if (large_) return large_->insert(node).second;
    if (std::find(small_.begin(), small_.end(), node) != small_.end()) return false;
    small_.push_back(node);
    if (small_.size() > kSmall) large_ = std::make_unique<Large>(small_.begin(), small_.end());
    return true;
  }

 private:
  using Large = ska::flat_hash_set<const torch::autograd::Node*>;  // even an empty one allocates
  static constexpr std::size_t kSmall = 16;
  c10::SmallVector<const torch::autograd::Node*, kSmall + 1> small_;
  std::unique_ptr<Large> large_;
};

/// The nodes that a call made, and the edges by which gradients leave them towards the call's inputs.
class CallGraph {
 public:
  CallGraph(std::uint64_t first_node, const GradientEdges& inputs)
      : first_node_(first_node), inputs_(inputs) {}

  bool is_inside(const torch::autograd::Node* node) const {
    return node->sequence_nr() != kLeafSequence && node->sequence_nr() >= first_node_;
  }

  // The `turn`th input at this edge, or the last one when there are fewer; -1: none hangs there.
  int input_at(const torch::autograd::Node* node, std::uint32_t output, std::size_t turn) const {
    int found = -1;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].first.get() != node || inputs_[i].second != output) continue;
      found = static_cast<int>(i);
      if (turn-- == 0) break;
    }
    return found;
  }

  // Calls use(node, edge number, target node, target output) for every edge to a node where an input hangs.
  template <typename Use>
  void for_each_exit(const torch::autograd::Node* start, Use use) {
    if (!is_inside(start) || !seen_.insert(start)) return;
    c10::SmallVector<const torch::autograd::Node*, 16> pending{start};
    while (!pending.empty()) {
      const torch::autograd::Node* node = pending.pop_back_val();
      const auto& edges = node->next_edges();
      for (std::uint32_t i = 0; i < edges.size(); ++i) {
        const torch::autograd::Node* next = edges[i].function.get();
        if (next == nullptr) continue;
        use(node, i, next, edges[i].input_nr);
        if (is_inside(next) && seen_.insert(next)) pending.push_back(next);
      }
    }
  }

 private:
  std::uint64_t first_node_;
  const GradientEdges& inputs_;
  NodeSet seen_;
};

/// Deals the edges that leave a call out to the inputs they lead to. Inputs that are the same tensor share an
/// edge: contributions come to them in the order of the edges, and the last takes what is left over.
class Dealer {
 public:
  explicit Dealer(const CallGraph& graph) : graph_(graph) {}

  // -1: no input hangs there.
  int input_at(const torch::autograd::Node* node, std::uint32_t output) {
    if (node != dealt_to_) dealt_ = 0;
    const int input = graph_.input_at(node, output, dealt_);
    if (input < 0) return input;
    dealt_to_ = node;
    ++dealt_;
    return input;
  }

 private:
  const CallGraph& graph_;
  std::size_t dealt_ = 0;
  const torch::autograd::Node* dealt_to_ = nullptr;
};

}  // namespace msprobe::torch_adapter

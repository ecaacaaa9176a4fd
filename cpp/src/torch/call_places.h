// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/SmallVector.h>
#include <torch/csrc/autograd/function.h>

#include <cstdint>

#include "torch/call_graph.h"

/// Where the gradients of a call's inputs and outputs pass: at which nodes of autograd, and by which number.
namespace msprobe::torch_adapter {

/// Which gradient of a call a number means: of a node's output, or of one of its next edges.
struct Place {
  std::uint32_t number;
  bool of_output;  // of the call; otherwise of an input
  std::uint16_t index;
};
using Places = c10::SmallVector<Place, 4>;

/// What is to be hooked on one node.
struct WatchedNode {
  torch::autograd::Node* node;
  Places arriving;
  Places leaving;
  bool passes_through = false;  // the output is an input: what arrives is the gradient of both
};

struct CallPlaces {
  c10::SmallVector<WatchedNode, 2> nodes;
  // For each end and each start, the contributions that come until its gradient is complete; 0: it has none.
  c10::SmallVector<std::uint16_t, 4> expected_outputs;
  c10::SmallVector<std::uint16_t, 4> expected_inputs;
};

/// Where gradients of `tensor` go. Node null: it has none, or none yet.
std::pair<NodePtr, std::uint32_t> edge_of(const at::Tensor& tensor);

/// Where the gradients of an output come from, if it has any.
bool has_end(const at::Tensor& output);

/// `first_node`: nodes of the call have this number or a higher one. `starts`: where the inputs hung before
/// the call. `ends`: of the outputs that have gradients.
CallPlaces places_of_call(std::uint64_t first_node, const GradientEdges& starts, const GradientEdges& ends);

}  // namespace msprobe::torch_adapter

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "msprobe/graph.h"

/// What the gradients of a call are gradients of.
namespace msprobe::graph {

/// The node of the forward pass to which a node of the backward pass belongs; kNoNode: there is none.
NodeId forward_node(const Graph& graph, std::string_view backward);

/// Which of the arguments (or results) of the forward pass a gradient belongs to.
std::optional<std::size_t> find_differentiated(std::span<const Parameter> values, const Parameter& gradient);

}  // namespace msprobe::graph

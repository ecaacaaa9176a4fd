// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "msprobe/graph.h"

namespace msprobe::graph {

inline constexpr std::size_t kMostColours = 5;

/// What a node and all nodes below it hold: what a collapsed module must not hide.
struct Aggregate {
  std::optional<double> worst_ulps;
  NodeId worst_node = kNoNode;
  std::optional<double> worst_index;
  std::uint32_t nodes = 0;
  std::uint32_t unmatched = 0;
  std::array<std::uint32_t, kMostColours> colours{};  // nodes in each interval of the index
};

/// One for each node. `comparison`: null for a graph alone. Of the reference (`is_golden`) only nodes are
/// counted, and those unmatched.
std::vector<Aggregate> aggregate(const Graph& graph, const Comparison* comparison, bool is_golden);

/// Which interval of the colours an index is in.
std::size_t colour_of(Mode mode, double index);

}  // namespace msprobe::graph

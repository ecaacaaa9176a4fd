// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "msprobe/graph.h"

namespace msprobe::graph {

/// What the cells of a node show besides what was recorded.
struct CellContext {
  const Graph& graph;
  bool shows_md5 = false;
  /// Null for a graph alone, and for the reference.
  const Comparison* comparison = nullptr;
  const Graph* golden = nullptr;  // with `comparison`
};

/// Appends the columns input_data and output_data of a node: a JSON object, name -> {field: text}.
void append_cells(const CellContext& context, NodeId node, std::string& inputs, std::string& outputs);

/// Appends a number as the cells show it: at most six decimals, or an exponent.
void append_cell_number(std::string& out, double value);

}  // namespace msprobe::graph

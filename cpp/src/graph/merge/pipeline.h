// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "msprobe/graph.h"

namespace msprobe::graph {

/// Joins the stages of a pipeline: `main` is the first, `others` those behind it in their order. The result,
/// in `main`, is what one rank with all layers would have recorded. Gives the modules that run over several
/// stages, parents before their children.
std::vector<NodeId> merge_pipeline(Graph& main, std::span<const Graph* const> others);

/// Joins the chunks of a model whose stages were joined: "Module.1.module..." and higher ones up to
/// `chunk_count` - 1 become part of "Module.0.module...". `containers`: what merge_pipeline() gave.
void merge_chunks(Graph& graph, std::span<const NodeId> containers, int chunk_count);

}  // namespace msprobe::graph

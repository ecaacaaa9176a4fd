// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>

#include "msprobe/graph.h"

namespace msprobe::graph {

/// Gives each graph the experts of all ranks of a group of expert parallelism. `graphs` stand in the order of
/// the group, which is that of their experts. Experts are numbered as the model does: "local_experts.1" of
/// the second of two ranks with two experts each is expert 3. Experts that one module computes together get
/// the statistics of those of all ranks. `counterpart_of_rank`: for a rank that graphs[0] is made of, that at
/// the same place in graphs[index].
void merge_experts(std::span<Graph* const> graphs,
                   const std::function<int(std::size_t index, int rank)>& counterpart_of_rank);

}  // namespace msprobe::graph

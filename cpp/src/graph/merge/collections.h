// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "msprobe/graph.h"

namespace msprobe::graph {

/// Puts each "Apis_Between_Modules.k" of `main` into a new "Apis_Between_Modules_All_Ranks.k", beside those
/// of the same number of `others`; by rank.
void join_collections(Graph& main, std::span<const Graph* const> others);

}  // namespace msprobe::graph

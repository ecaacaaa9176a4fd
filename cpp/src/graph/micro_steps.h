// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "msprobe/graph.h"

namespace msprobe::graph {

/// Gives all nodes below those at the top the micro step of the one at the top.
void inherit_micro_steps(Graph& graph);

}  // namespace msprobe::graph

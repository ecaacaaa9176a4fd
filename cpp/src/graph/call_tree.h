// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "msprobe/graph.h"

namespace msprobe::graph {

/// For a dump without modules: hangs every record below the functions that called it, "Stack.train_step.0",
/// outermost first, those of torch left out. Calls from different lines of a function are different nodes.
/// Backward calls hang below "Stack.backward.0", at the place of their forward call. Records without a stack
/// hang on the root.
void add_call_tree(Graph& graph);

}  // namespace msprobe::graph

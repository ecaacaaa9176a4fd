// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/merge/shards.h"

namespace msprobe::graph {

/// Joins ranks of context parallelism, each with a part of every sequence and all weights. What differs
/// between them is a part of a larger tensor, but for gradients of what they all have: these are summands.
void merge_context(const Shards& shards);

}  // namespace msprobe::graph

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/merge/shards.h"

namespace msprobe::graph {

/// Joins ranks of tensor parallelism, each with a part of every weight matrix. What differs between them is a
/// part of a larger tensor; so is what stands between a layer that splits columns and the next one that
/// splits rows; what the ranks add up afterwards gets its sum.
void merge_tensor(const Shards& shards);

}  // namespace msprobe::graph

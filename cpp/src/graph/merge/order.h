// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "msprobe/graph_merge.h"

namespace msprobe::graph {

/// The names in `order`, with those behind them that it leaves out.
std::vector<std::string> dimensions_of(const ParallelLayout& layout);

}  // namespace msprobe::graph

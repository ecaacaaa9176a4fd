// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "msprobe/graph.h"

namespace msprobe::graph {

/// The level of each of the records of a dump, in their order (docs/formats/graph.md, overflow levels).
/// Bad are NaN and infinities in max, min or mean of arguments and results, those in lists too, those in
/// objects not. Parameters of a module are no arguments: a NaN in a weight makes its module kCritical. Calls
/// whose memory means nothing before they ran, as the buffer that Distributed.recv was given, are excused.
std::vector<OverflowLevel> overflow_levels(const trace::Trace& trace);

}  // namespace msprobe::graph

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "msprobe/graph.h"

namespace msprobe::graph {

/// In place of the name of a record that the reference side lacks.
inline constexpr std::string_view kNoLayer = "N/A";

/// The record of `reference` that each record of `target` belongs to by its place in the model: that of a
/// module is the way of attributes to it, that of an operator's call the module that called it and the name
/// of the operator. Places are translated by `rules`; where several records share a place, as calls of one
/// operator in one module do, the n-th forward record belongs to the n-th, and likewise backward
/// (docs/formats/graph.md, layer mapping).
///
/// Without construct.json calls of operators have no module. Throws InvalidArgument with file and record for
/// a name of fewer than 4 or more than 2000 parts.
std::unordered_map<std::string, std::string> map_layers(const Dump& target, const Dump& reference,
                                                        const LayerRules& rules);

}  // namespace msprobe::graph

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/graph.h"

/// The tensors of several ranks as one.
namespace msprobe::graph {

/// Max, min, mean and norm of a tensor; nothing when one of them is no number.
std::optional<Statistics> statistics_of(const Parameter& parameter);

/// Whether the statistics agree: the extremes exactly, mean and norm to `tolerance` relative to `left`. True
/// where `left` has none, false where only `right` has none.
bool agree(const Parameter& left, const Parameter* right, double tolerance);
inline constexpr double kRounding = 1e-6;
/// The same for all of `left` and what stands at the same place in `right`.
bool agree(std::span<const Parameter> left, std::span<const Parameter> right);

/// The parameter of `others` that stands at the same place as `wanted`; null: there is none.
const Parameter* find_same(std::span<const Parameter> others, const Parameter& wanted, std::size_t position);

/// Puts the statistics of the whole tensor in `parts[0]`, of which each of `parts` holds a piece, and how
/// they were found into `notes`: largest, smallest, mean by numbers of elements, square root of the sum of
/// squares. NaN in a piece is NaN in the whole. `label`: what the notes call it. False, and nothing changed,
/// when a piece has no statistics.
bool merge_parts(std::span<Parameter* const> parts, std::string_view label, std::vector<std::string>& notes);

/// "input.0", "parameters.weight", "weight" for gradients: what follows the name of the node.
std::string label_of(const Graph& graph, NodeId node, const Parameter& parameter);

/// "[0, 1]"
std::string list_of(std::span<const int> ranks);

/// The first note of a node whose data was merged. `title`: by what; `ranks`: as list_of() writes them.
std::string merge_note(std::string_view title, std::string_view ranks);

/// The note of a tensor, `what`, that is a sum over `ranks` of which each holds a part.
std::string summands_note(std::string_view ranks, std::string_view what);

/// The note of a tensor, `what`, of which no one knows how it lies over `ranks`.
std::string strange_note(std::string_view ranks, std::string_view what, std::string_view placement);

}  // namespace msprobe::graph

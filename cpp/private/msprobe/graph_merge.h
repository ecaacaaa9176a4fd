// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Joins the graphs of the ranks of a parallel job into the graph of the model. Rules, and which numbers of
/// the result are exact: docs/formats/graph_merge.md.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "msprobe/export.h"
#include "msprobe/graph.h"
#include "msprobe/graph_file.h"

namespace msprobe::graph {

/// Throws InvalidArgument, naming the key, unless the sizes are positive and divide each other, vpp > 1 has
/// pp > 1, and `order` names each dimension once, ep beside dp. A dimension of size 1 may be missing there.
/// `where` is for messages: 'compare.json, "parallel_merge", "npu"'.
MSPROBE_API void check_layout(const ParallelLayout& layout, const std::string& where);

/// One graph for each copy of the model, with the rank of its first rank; micro steps are those of the ranks.
/// Which ranks form a group is read off their communication, where that fits the layout; else it follows
/// `order`. What other ranks do not have, or have in another place, stays as it is on the first rank.
///
/// `ranks`: of one step, by rank, of dumps with statistics. Throws InvalidArgument when they are not the
/// ranks 0 to rank_size - 1, come from several steps, or have md5 or real data; and what check_layout() does.
MSPROBE_API std::vector<Graph> merge_ranks(std::vector<Graph> ranks, const ParallelLayout& layout);

/// The layout: by placements where a rank has DTensors, as FSDP2 and tensor-parallel programs of torch have.
/// Else from the groups of ranks that communicate inside modules (tp), the chain of their sends (pp)
/// and the chunks of their models (vpp). Nothing when these do not agree. Context and expert parallelism
/// leave no sign that would tell them from others: cp and ep are 1, and such a job may be taken for another.
MSPROBE_API std::optional<ParallelLayout> layout_of(std::span<const Graph> ranks);

}  // namespace msprobe::graph

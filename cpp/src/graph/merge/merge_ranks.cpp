// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <utility>

#include "graph/merge/collections.h"
#include "graph/merge/context.h"
#include "graph/merge/experts.h"
#include "graph/merge/groups.h"
#include "graph/merge/mesh.h"
#include "graph/merge/pipeline.h"
#include "graph/merge/shards.h"
#include "graph/merge/tensor.h"
#include "io/in_quotes.h"
#include "msprobe/error.h"
#include "msprobe/graph_merge.h"

namespace msprobe::graph {
namespace {

void check_ranks(std::span<const Graph> ranks, const ParallelLayout& layout) {
  const auto refuse = [](const std::string& problem) {
    throw InvalidArgument("cannot merge ranks: " + problem);
  };
  if (ranks.size() != static_cast<std::size_t>(layout.rank_size)) {
    refuse("found " + std::to_string(ranks.size()) + ", expected as many as \"rank_size\", " +
           std::to_string(layout.rank_size));
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const Dump& dump = *ranks[i].dumps().front();
    if (std::cmp_not_equal(dump.rank, i)) {
      refuse("found rank " + std::to_string(dump.rank) + " as number " + std::to_string(i) +
             ", expected the ranks from 0 to " + std::to_string(ranks.size() - 1));
    }
    if (dump.step != ranks.front().step()) {
      refuse("rank " + std::to_string(i) + " is of step " + std::to_string(dump.step) + ", rank 0 of step " +
             std::to_string(ranks.front().step()) + ", expected one step");
    }
    if (dump.trace.task() != "statistics" || dump.trace.has_md5()) {
      const std::string found =
          dump.trace.has_md5() ? "md5 sums" : "task " + io::in_quotes(dump.trace.task());
      refuse(dump.trace.path().string() + ": found " + found +
             ", expected statistics: other data of several ranks cannot be joined");
    }
  }
}

class RankMerge {
 public:
  RankMerge(std::vector<Graph> ranks, const ParallelLayout& layout)
      : layout_(layout), groups_(find_groups(ranks, layout)) {
    for (Graph& graph : ranks) graphs_.emplace_back(std::move(graph));
  }

  std::vector<Graph> merge() {
    join_all_collections();
    for (const Group& group : groups_.pp) merge_stages(group);
    for (const Group& group : groups_.tp) merge_group(tp_, group, merge_tensor);
    for (const Group& group : groups_.cp) merge_group(cp_, group, merge_context);
    for (const Group& group : groups_.ep) share_experts(group);
    std::vector<Graph> merged;
    for (auto& graph : graphs_) {
      if (graph) merged.push_back(std::move(*graph));
    }
    return merged;
  }

 private:
  // Of a rank that is there.
  Graph& graph(int rank) {
    return *graphs_[static_cast<std::size_t>(rank)];  // NOLINT(bugprone-unchecked-optional-access)
  }
  // Whether no rank of the group became part of another.
  bool are_there(const Group& group) const {
    return std::all_of(group.begin(), group.end(),
                       [this](int rank) { return graphs_[static_cast<std::size_t>(rank)].has_value(); });
  }

  // The graph that a rank becomes part of.
  int main_of(int rank) const { return cp_.first(tp_.first(pp_.first(rank))); }

  void join_all_collections() {
    std::vector<std::vector<const Graph*>> others(graphs_.size());
    for (int rank = 0; rank < layout_.rank_size; ++rank) {
      if (const int main = main_of(rank); main != rank)
        others[static_cast<std::size_t>(main)].push_back(&graph(rank));
    }
    for (int rank = 0; rank < layout_.rank_size; ++rank) {
      if (main_of(rank) == rank) join_collections(graph(rank), others[static_cast<std::size_t>(rank)]);
    }
  }

  // The graphs of the ranks behind the first one, which go away.
  std::vector<const Graph*> others_of(const Group& group) {
    std::vector<const Graph*> others;
    for (std::size_t i = 1; i < group.size(); ++i) others.push_back(&graph(group[i]));
    return others;
  }
  void drop_others(const Group& group) {
    std::int32_t micro_steps = 1;
    for (const int rank : group) micro_steps = std::max(micro_steps, graph(rank).micro_steps());
    graph(group.front()).set_micro_steps(micro_steps);
    for (std::size_t i = 1; i < group.size(); ++i) graphs_[static_cast<std::size_t>(group[i])].reset();
  }

  void merge_stages(const Group& group) {
    const auto containers = merge_pipeline(graph(group.front()), others_of(group));
    if (layout_.vpp > 1) merge_chunks(graph(group.front()), containers, layout_.vpp);
    drop_others(group);
  }

  void merge_group(const Places& places, const Group& group, void (*merge_parts)(const Shards&)) {
    if (!are_there(group)) return;
    merge_parts({.main = graph(group.front()),
                 .others = others_of(group),
                 .counterpart_of_rank = [&places](std::size_t other, int rank) {
                   return places.behind(rank, other + 1);
                 }});
    drop_others(group);
  }

  void share_experts(const Group& group) {
    if (!are_there(group)) return;
    std::vector<Graph*> graphs;
    for (const int rank : group) graphs.push_back(&graph(rank));
    merge_experts(graphs, [this](std::size_t index, int rank) { return ep_.behind(rank, index); });
  }

  const ParallelLayout& layout_;
  Groups groups_;
  Places tp_{groups_.tp}, pp_{groups_.pp}, cp_{groups_.cp}, ep_{groups_.ep};
  std::vector<std::optional<Graph>> graphs_;  // by rank; without those that became part of another
};

std::vector<Graph> merge_by_placements(std::vector<Graph> ranks) {
  const std::vector<Mesh> meshes = find_meshes(ranks);
  for (const Mesh& mesh : meshes) merge_mesh(mesh, ranks);
  std::vector<Graph> merged;
  merged.reserve(meshes.size());
  for (const Mesh& mesh : meshes) merged.push_back(std::move(ranks[mesh.ranks.front()]));
  return merged;
}

}  // namespace

std::vector<Graph> merge_ranks(std::vector<Graph> ranks, const ParallelLayout& layout) {
  check_layout(layout, "layout");
  check_ranks(ranks, layout);
  if (layout.by_placements) return merge_by_placements(std::move(ranks));
  return RankMerge(std::move(ranks), layout).merge();
}

}  // namespace msprobe::graph

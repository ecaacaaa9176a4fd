// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/merge/shards.h"

#include <algorithm>
#include <utility>

#include "graph/merge/rank_name.h"
#include "msprobe/record_name.h"

namespace msprobe::graph {

ShardMerge::ShardMerge(const Shards& shards, std::string title)
    : shards_(shards), title_(std::move(title)), merged_(shards.main.nodes().size()) {
  find_counterparts();
}

void ShardMerge::find_counterparts() {
  const Graph& main = shards_.main;
  counterparts_.resize(main.nodes().size());
  counterparts_[Graph::kRoot].assign(shards_.others.size(), Graph::kRoot);
  std::vector<NodeId> open = {Graph::kRoot};
  while (!open.empty()) {
    const NodeId parent = open.back();
    open.pop_back();
    for (const NodeId node : main[parent].children) {
      std::vector<NodeId> same;
      for (std::size_t i = 0; i < shards_.others.size(); ++i) {
        const Graph& other = *shards_.others[i];
        const NodeId found = other.find(
            with_other_rank(main[node].name, [&](int rank) { return shards_.counterpart_of_rank(i, rank); }));
        if (found == kNoNode || other[found].parent != counterparts_[parent][i]) break;
        same.push_back(found);
      }
      if (same.size() != shards_.others.size()) continue;
      counterparts_[node] = std::move(same);
      open.push_back(node);
    }
  }
}

std::vector<int> ShardMerge::ranks_of(NodeId node) const {
  std::vector<int> ranks = {shards_.main.dump(node).rank};
  for (std::size_t i = 0; i < shards_.others.size(); ++i) {
    ranks.push_back(shards_.others[i]->dump(counterpart(node, i)).rank);
  }
  return ranks;
}

bool ShardMerge::is_copied(NodeId node, const Parameter& parameter, std::size_t position,
                           bool is_output) const {
  NodeData data;
  for (std::size_t i = 0; i < shards_.others.size(); ++i) {
    shards_.others[i]->read_data(counterpart(node, i), data);
    const auto& theirs = is_output ? data.outputs : data.inputs;
    if (!agree(parameter, find_same(theirs, parameter, position), kRounding)) return false;
  }
  return true;
}

bool ShardMerge::merge(NodeId node, const Choice& inputs, const Choice& outputs) {
  NodeData data;
  shards_.main.read_data(node, data);
  std::vector<NodeData> others(shards_.others.size());
  for (std::size_t i = 0; i < others.size(); ++i)
    shards_.others[i]->read_data(counterpart(node, i), others[i]);
  const std::string ranks = list_of(ranks_of(node));
  std::vector<std::string> merge_notes, sum_notes;

  const auto merge_all = [&](std::vector<Parameter> NodeData::* part, const Choice& choice) {
    for (std::size_t position = 0; position < (data.*part).size(); ++position) {
      Parameter& own = (data.*part)[position];
      const std::string label = label_of(shards_.main, node, own);
      const Rule rule = choice(own, label);
      if (rule == Rule::kKeep) continue;
      std::vector<Parameter> copies;
      bool is_equal = true;
      for (const NodeData& other : others) {
        const Parameter* same = find_same(other.*part, own, position);
        if (same == nullptr) break;
        is_equal = is_equal && agree(own, same, kRounding) && (statistics_of(own) || !statistics_of(*same));
        copies.push_back(*same);
      }
      if (copies.size() != others.size() || (is_equal && rule != Rule::kMergeAlways)) continue;
      if (rule == Rule::kPartOfSum) {
        sum_notes.push_back(summands_note(ranks, label));
        continue;
      }
      std::vector<Parameter*> parts = {&own};
      for (Parameter& copy : copies) parts.push_back(&copy);
      merge_parts(parts, label, merge_notes);
    }
  };
  merge_all(&NodeData::inputs, inputs);
  merge_all(&NodeData::outputs, outputs);

  if (merge_notes.empty() && sum_notes.empty()) return false;
  if (!merge_notes.empty()) data.notes.push_back(merge_note(title_, ranks));
  data.notes.insert(data.notes.end(), merge_notes.begin(), merge_notes.end());
  data.notes.insert(data.notes.end(), sum_notes.begin(), sum_notes.end());
  shards_.main.set_data(node, std::move(data));
  merged_[node] = true;
  return true;
}

bool ShardMerge::merge(NodeId node) {
  const Choice all = [](const Parameter&, std::string_view) { return Rule::kMerge; };
  return merge(node, all, all);
}

void ShardMerge::take_reduced(NodeId node, NodeId reduction) {
  NodeData data, reduced;
  shards_.main.read_data(node, data);
  shards_.main.read_data(reduction, reduced);
  if (data.outputs.empty() || reduced.outputs.empty()) return;
  Parameter& sum = reduced.outputs.front();
  if (!statistics_of(sum)) return;
  std::string name;
  append_parameter_name(name, shards_.main, reduction, sum);
  data.notes.push_back("The output of this data is merged from " + name);
  if (!is_copied(reduction, sum, 0, true)) {
    std::vector<Parameter> copies;
    for (std::size_t i = 0; i < shards_.others.size(); ++i) {
      NodeData theirs;
      shards_.others[i]->read_data(counterpart(reduction, i), theirs);
      if (const Parameter* part = find_same(theirs.outputs, sum, 0)) copies.push_back(*part);
    }
    std::vector<Parameter*> parts = {&sum};
    for (Parameter& copy : copies) parts.push_back(&copy);
    if (copies.size() == shards_.others.size())
      merge_parts(parts, label_of(shards_.main, reduction, sum), data.notes);
  }
  data.outputs.front().merged = statistics_of(sum);
  shards_.main.set_data(node, std::move(data));
  merged_[node] = true;
}

bool is_of_the_loop(std::string_view name) {
  return name.starts_with("optimizer") || name.starts_with("clip_grad") || name.starts_with("preparation");
}

bool may_hold_parts(const Graph& graph, NodeId node) {
  if (node == Graph::kRoot || graph[node].parent == kNoNode) return false;
  const Node& parent = graph[graph[node].parent];
  return parent.kind == NodeKind::kModule && !is_of_the_loop(parent.name) &&
         !trace::RecordName(graph[node].name).has_collective_prefix();
}

}  // namespace msprobe::graph

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/legend.h"
#include "msprobe/graph.h"

namespace msprobe::graph {
namespace {

std::optional<double> worst_of(const NodeVerdict& verdict) {
  std::optional<double> worst;
  for (const auto& one :
       {verdict.input_ulps, verdict.output_ulps, verdict.weight_ulps, verdict.gradient_ulps}) {
    if (one && (!worst || *one > *worst)) worst = one;
  }
  return worst;
}

void take_index(Aggregate& into, Mode mode, std::optional<double> index) {
  if (!index) return;
  const bool is_worse =
      !into.worst_index || (mode == Mode::kMd5 ? *index < *into.worst_index : *index > *into.worst_index);
  if (is_worse) into.worst_index = index;
}

void add_child(Aggregate& into, const Aggregate& child, Mode mode) {
  // Of equal ones the first in the order of execution.
  if (child.worst_ulps && (!into.worst_ulps || *child.worst_ulps > *into.worst_ulps)) {
    into.worst_ulps = child.worst_ulps;
    into.worst_node = child.worst_node;
  }
  take_index(into, mode, child.worst_index);
  into.nodes += child.nodes;
  into.unmatched += child.unmatched;
  for (std::size_t i = 0; i < into.colours.size(); ++i) into.colours[i] += child.colours[i];
}

Aggregate own(NodeId node, const Comparison* comparison, bool is_reference) {
  Aggregate result;
  result.nodes = 1;
  if (comparison == nullptr) return result;
  const auto& matches = is_reference ? comparison->matches.of_reference : comparison->matches.of_target;
  if (matches[node] == kNoNode) result.unmatched = 1;
  if (is_reference) return result;
  const NodeVerdict& verdict = comparison->verdicts[node];
  result.worst_ulps = worst_of(verdict);
  if (result.worst_ulps) result.worst_node = node;
  result.worst_index = verdict.index;
  if (verdict.index) ++result.colours[colour_of(comparison->mode, *verdict.index)];
  return result;
}

}  // namespace

std::size_t colour_of(Mode mode, double index) {
  const auto colours = colours_of(mode);
  if (mode == Mode::kMd5) return index >= 1 ? 0 : 1;
  std::size_t i = 0;
  while (i + 1 < colours.size() && index >= colours[i].high) ++i;
  return i;
}

std::vector<Aggregate> aggregate(const Graph& graph, const Comparison* comparison, bool is_reference) {
  const Mode mode = comparison == nullptr ? Mode::kStructure : comparison->mode;
  std::vector<Aggregate> result(graph.nodes().size());
  for (const NodeId node : graph.post_order()) {
    for (const NodeId child : graph[node].children) add_child(result[node], result[child], mode);
    add_child(result[node], own(node, comparison, is_reference), mode);
  }
  return result;
}

}  // namespace msprobe::graph

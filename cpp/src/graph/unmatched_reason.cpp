// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "msprobe/graph.h"
#include "trace/item/item_text.h"

namespace msprobe::graph {
namespace {

std::string or_none(std::string_view text) { return text.empty() ? "none" : std::string(text); }

// The first difference of two lists; empty: there is none.
std::string first_difference(std::string_view what, const std::vector<Parameter>& ours,
                             const std::vector<Parameter>& theirs, bool types_count) {
  for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    const std::string place = std::string(what) + " " + std::to_string(i);
    const auto type = [](const Parameter& one) { return one.trace->text(one.item->type); };
    if (types_count && type(ours[i]) != type(theirs[i])) {
      return place + " is " + or_none(type(ours[i])) + " here and " + or_none(type(theirs[i])) +
             " in the other run";
    }
    const std::string_view shape = trace::shape_text(*ours[i].trace, *ours[i].item);
    const std::string_view other = trace::shape_text(*theirs[i].trace, *theirs[i].item);
    if (shape != other) {
      return place + " has the shape " + std::string(shape) + " here and " + std::string(other) +
             " in the other run";
    }
  }
  if (!types_count || ours.size() == theirs.size()) return {};
  return std::to_string(ours.size()) + " " + std::string(what) + "s here, " + std::to_string(theirs.size()) +
         " in the other run";
}

}  // namespace

std::string unmatched_reason(const Graph& graph, const Graph& other, const MatchOptions& options, NodeId node,
                             bool is_reference) {
  if (options.rule == MatchRule::kMapped) return "the mapping leads to no node of the other run";
  const NodeId same = other.find(graph[node].name);
  if (same == kNoNode || (same != Graph::kRoot && other[same].parent == kNoNode)) {
    return is_reference ? "the target has no node of this name" : "the reference has no node of this name";
  }
  const NodeId parent = graph[node].parent, other_parent = other[same].parent;
  if (options.rule == MatchRule::kDefault && parent != kNoNode && other_parent != kNoNode) {
    if (graph[parent].name != other[other_parent].name) {
      return "in the other run it is in " + std::string(other[other_parent].name);
    }
  }
  NodeData ours, theirs;
  graph.read_data(node, ours);
  other.read_data(same, theirs);
  const bool types_count = options.rule == MatchRule::kDefault;
  std::string reason;
  if (options.check_shapes || types_count)
    reason = first_difference("input", ours.inputs, theirs.inputs, types_count);
  if (reason.empty() && (options.check_shapes || types_count)) {
    reason = first_difference("output", ours.outputs, theirs.outputs, types_count);
  }
  if (!reason.empty()) return reason;
  return options.rule == MatchRule::kFuzzy ? "its module has no match, or fewer such calls in the other run"
                                           : "a module around it has another place in the other run";
}

}  // namespace msprobe::graph

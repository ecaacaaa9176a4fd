// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "base/reversed.h"
#include "graph/dotted_name.h"
#include "graph/micro_steps.h"
#include "msprobe/graph.h"
#include "trace/item/item_text.h"
#include "trace/rank_numbers.h"

namespace msprobe::graph {
namespace {

bool same_type(const Parameter& a, const Parameter& b) {
  return a.trace->text(a.item->type) == b.trace->text(b.item->type);
}

bool same_shape(const Parameter& a, const Parameter& b) {
  return trace::shape_text(*a.trace, *a.item) == trace::shape_text(*b.trace, *b.item);
}

class Matcher {
 public:
  Matcher(const Graph& target, const Graph& reference, const MatchOptions& options)
      : target_(target), reference_(reference), options_(options) {
    result_.of_target.assign(target.nodes().size(), kNoNode);
    result_.of_reference.assign(reference.nodes().size(), kNoNode);
  }

  NodeMatches run() {
    switch (options_.rule) {
      case MatchRule::kDefault: match_equals(); break;
      case MatchRule::kFuzzy: match_fuzzy(); break;
      case MatchRule::kMapped: match_mapped(); break;
    }
    return std::move(result_);
  }

 private:
  void link(NodeId node, NodeId other) {
    result_.of_target[node] = other;
    result_.of_reference[other] = node;
  }

  // ---- By name and place

  // Nodes hang below nodes of the same names, up to the root: decided for parents before their children.
  void match_equals() {
    const auto order = target_.post_order();
    std::vector<bool> same_place(target_.nodes().size());
    for (const NodeId node : Reversed(order)) {
      const NodeId other = reference_.find(target_[node].name);
      if (other == kNoNode) continue;
      const NodeId parent = target_[node].parent, other_parent = reference_[other].parent;
      same_place[node] = node == Graph::kRoot ? other == Graph::kRoot
                                              : other_parent != kNoNode && same_place[parent] &&
                                                    target_[parent].name == reference_[other_parent].name;
      if (same_place[node] && has_equal_data(node, other)) link(node, other);
    }
  }

  bool has_equal_data(NodeId node, NodeId other) {
    read(node, other);
    const auto equal = [](const Parameter& a, const Parameter& b) {
      return same_type(a, b) && same_shape(a, b);
    };
    return std::equal(ours_.inputs.begin(), ours_.inputs.end(), theirs_.inputs.begin(), theirs_.inputs.end(),
                      equal) &&
           std::equal(ours_.outputs.begin(), ours_.outputs.end(), theirs_.outputs.begin(),
                      theirs_.outputs.end(), equal);
  }

  void read(NodeId node, NodeId other) {
    target_.read_data(node, ours_);
    reference_.read_data(other, theirs_);
  }

  // ---- Fuzzy

  void match_fuzzy() {
    for (const NodeId node : target_.post_order()) {
      if (target_[node].kind == NodeKind::kCall) continue;
      const NodeId other = reference_.find(target_[node].name);
      if (other == kNoNode || !hangs(other) || !fits(node, other)) continue;
      link(node, other);
      match_calls(node, other);
    }
  }

  bool hangs(NodeId reference) const {
    return reference == Graph::kRoot || reference_[reference].parent != kNoNode;
  }

  bool fits(NodeId node, NodeId other) {
    if (!options_.check_shapes) return true;
    read(node, other);
    const auto fit = [](const std::vector<Parameter>& a, const std::vector<Parameter>& b) {
      const std::size_t count = std::min(a.size(), b.size());
      return std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(count), b.begin(), same_shape);
    };
    return fit(ours_.inputs, theirs_.inputs) && fit(ours_.outputs, theirs_.outputs);
  }

  // Of both modules, the n-th calls of an operator.
  void match_calls(NodeId node, NodeId other) {
    std::map<std::string, std::vector<NodeId>> theirs;
    for (const NodeId child : reference_[other].children) {
      if (reference_[child].kind == NodeKind::kCall)
        theirs[operator_name(reference_[child].name)].push_back(child);
    }
    std::map<std::string, std::size_t> counts;
    for (const NodeId child : target_[node].children) {
      if (target_[child].kind != NodeKind::kCall) continue;
      const std::string name = operator_name(target_[child].name);
      const std::size_t count = counts[name]++;
      const auto found = theirs.find(name);
      if (found == theirs.end() || count >= found->second.size()) continue;
      if (fits(child, found->second[count])) link(child, found->second[count]);
    }
  }

  // "Torch.matmul.forward" of "Torch.matmul_rank1.2.forward".
  static std::string operator_name(std::string_view name) {
    std::string result;
    for (const std::string_view part : split_name(name)) {
      if (!result.empty() && is_number(part) && part.data() + part.size() != name.data() + name.size())
        continue;
      const std::size_t rank = part.rfind("_rank");
      const bool of_rank = rank != std::string_view::npos && is_number(part.substr(rank + 5));
      if (!result.empty()) result += '.';
      result += of_rank ? part.substr(0, rank) : part;
    }
    return result;
  }

  // ---- Mapped

  void match_mapped() {
    for (const NodeId node : target_.post_order()) {
      const std::string name(target_[node].name);
      const auto mapped = options_.names.find(name);
      const NodeId other = reference_.find(mapped == options_.names.end() ? name : mapped->second);
      if (other != kNoNode && hangs(other)) link(node, other);
    }
  }

  const Graph& target_;
  const Graph& reference_;
  const MatchOptions& options_;
  NodeMatches result_;
  NodeData ours_, theirs_;
};

int last_number(std::string_view name) { return trace::whole_number(last_part(name)).value_or(0); }

const trace::Construct* construct_or_null(const Dump& dump) {
  return dump.construct.entries().empty() ? nullptr : &dump.construct;
}

trace::MatchKind match_kind(MatchRule rule) {
  switch (rule) {
    case MatchRule::kDefault: return trace::MatchKind::kExact;
    case MatchRule::kFuzzy: return trace::MatchKind::kFuzzy;
    case MatchRule::kMapped: return trace::MatchKind::kMapped;
  }
  return trace::MatchKind::kNone;
}

std::vector<NodeId> nodes_of_records(const Graph& graph) {
  std::vector<NodeId> nodes(graph.dumps().front()->trace.records().size(), kNoNode);
  for (NodeId node = 0; node < graph.nodes().size(); ++node) {
    if (graph[node].record != Node::kNoRecord) nodes[graph[node].record] = node;
  }
  return nodes;
}

}  // namespace

NodeMatches match_nodes(const Graph& target, const Graph& reference, const MatchOptions& options) {
  return Matcher(target, reference, options).run();
}

std::vector<Counterpart> align_nodes(const Graph& target, const Graph& reference, const NodeMatches& matches,
                                     MatchRule rule) {
  std::vector<Counterpart> result(target.nodes().size());
  const auto how_by_name = [&](NodeId node, NodeId other) {
    return target[node].name == reference[other].name ? trace::MatchKind::kExact : match_kind(rule);
  };
  for (NodeId node = 0; node < result.size(); ++node) {
    const NodeId other = matches.of_target[node];
    if (other != kNoNode) result[node] = {other, how_by_name(node, other)};
  }
  const bool are_of_one_rank = target.dumps().size() == 1 && reference.dumps().size() == 1;
  if (!are_of_one_rank || rule != MatchRule::kDefault) return result;
  const Dump &ours = *target.dumps().front(), &theirs = *reference.dumps().front();
  const trace::RecordMatches aligned =
      trace::match_records(ours.trace, construct_or_null(ours), theirs.trace, construct_or_null(theirs));
  const std::vector<NodeId> reference_nodes = nodes_of_records(reference);
  for (NodeId node = 0; node < result.size(); ++node) {
    if (target[node].record == Node::kNoRecord) continue;
    const trace::Match& match = aligned.of_target[target[node].record];
    result[node] = match ? Counterpart{reference_nodes[match.index], match.how} : Counterpart();
    if (result[node].node == kNoNode) result[node].how = trace::MatchKind::kNone;
  }
  return result;
}

void follow_micro_steps(const Graph& target, Graph& reference, const NodeMatches& matches) {
  if (reference.dumps().front()->construct.micro_steps()) return;  // the file numbers them
  for (const NodeId node : reference[Graph::kRoot].children) {
    const NodeId other = matches.of_reference[node];
    const bool is_at_top = other != kNoNode && target[other].parent == Graph::kRoot;
    reference[node].micro_step = is_at_top ? target[other].micro_step : last_number(reference[node].name);
  }
  inherit_micro_steps(reference);
}

}  // namespace msprobe::graph

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/merge/import.h"

#include <algorithm>

#include "graph/merge/rank_name.h"

namespace msprobe::graph {

std::string Renaming::operator()(std::string_view name) const {
  if (from.empty() || !name.starts_with(from)) return std::string(name);
  return to + std::string(name.substr(from.size()));
}

Import::Import(Graph& into, const Graph& from) : into_(into), from_(from) {
  for (const auto& dump : from.dumps()) {
    const auto& known = into.dumps();
    const auto found = std::find(known.begin(), known.end(), dump);
    sources_.push_back(found == known.end() ? into.add_dump(dump)
                                            : static_cast<std::uint16_t>(found - known.begin()));
  }
}

NodeId Import::copy(NodeId node, const Renaming& renaming) {
  const Node& original = from_[node];
  const int rank = from_.dump(node).rank;
  std::string name =
      original.kind == NodeKind::kCall ? with_rank(original.name, rank) : renaming(original.name);
  if (into_.find(name) != kNoNode) name = with_rank(name, rank);
  while (into_.find(name) != kNoNode) name += '_';
  return into_.add_copy(from_, node, name, sources_[original.source]);
}

NodeId Import::tree(NodeId node, const Renaming& renaming) {
  const NodeId top = copy(node, renaming);
  std::vector<std::pair<NodeId, NodeId>> open = {{node, top}};
  for (std::size_t next = 0; next < open.size(); ++next) {
    const auto [original, parent] = open[next];
    for (const NodeId child : from_[original].children) {
      open.emplace_back(child, copy(child, renaming));
      into_.attach(open.back().second, parent);
    }
  }
  return top;
}

}  // namespace msprobe::graph

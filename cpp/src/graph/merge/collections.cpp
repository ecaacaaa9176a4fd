// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/merge/collections.h"

#include <algorithm>
#include <string>

#include "graph/merge/import.h"

namespace msprobe::graph {
namespace {

constexpr std::string_view kPrefix = "Apis_Between_Modules.";

std::string name_of_rank(int rank, std::string_view number) {
  return "Apis_Between_Modules_Rank" + std::to_string(rank) + "." + std::string(number);
}

}  // namespace

void join_collections(Graph& main, std::span<const Graph* const> others) {
  std::vector<Import> imports;
  for (const Graph* other : others) imports.emplace_back(main, *other);
  for (std::size_t i = 0; i < main[Graph::kRoot].children.size(); ++i) {
    const NodeId own = main[Graph::kRoot].children[i];
    const std::string name(main[own].name);
    if (main[own].kind != NodeKind::kCollection || !name.starts_with(kPrefix)) continue;
    const std::string_view number = std::string_view(name).substr(kPrefix.size());
    const NodeId all =
        main.add("Apis_Between_Modules_All_Ranks." + std::string(number), NodeKind::kCollection);
    main[all].micro_step = main[own].micro_step;
    main[all].parent = Graph::kRoot;
    main[Graph::kRoot].children[i] = all;
    main.rename(own, name_of_rank(main.rank(), number));
    std::vector<std::pair<int, NodeId>> members = {{main.rank(), own}};
    for (std::size_t other = 0; other < others.size(); ++other) {
      const NodeId theirs = others[other]->find(name);
      if (theirs == kNoNode || (*others[other])[theirs].parent != Graph::kRoot) continue;
      const int rank = others[other]->rank();
      members.emplace_back(rank, imports[other].tree(theirs, {name, name_of_rank(rank, number)}));
    }
    std::sort(members.begin(), members.end());
    for (const auto& member : members) main.attach(member.second, all);
  }
}

}  // namespace msprobe::graph

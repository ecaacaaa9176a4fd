// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/merge/experts.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/merge/import.h"
#include "graph/merge/shards.h"
#include "msprobe/engines.h"
#include "msprobe/record_name.h"

namespace msprobe::graph {
namespace {

constexpr std::string_view kList = engines::kLocalExperts;

struct ExpertName {
  std::string list;  // up to and with "local_experts."
  int number = 0;

  std::string prefix(int offset = 0) const { return list + std::to_string(number + offset) + "."; }
};

std::optional<ExpertName> parse_expert(std::string_view name) {
  const std::size_t at = name.find(kList);
  if (at == std::string_view::npos) return std::nullopt;
  ExpertName expert = {.list = std::string(name.substr(0, at + kList.size()))};
  const std::string_view rest = name.substr(at + kList.size());
  const char* const begin = rest.data();
  const auto [end, error] = std::from_chars(begin, begin + rest.size(), expert.number);
  constexpr int kMost = 1 << 20;  // no model has more; larger numbers are no numbers of experts
  if (error != std::errc() || end == begin + rest.size() || *end != '.' || expert.number > kMost)
    return std::nullopt;
  return expert;
}

class Experts {
 public:
  explicit Experts(std::span<Graph* const> graphs) : graphs_(graphs), own_(graphs.size()) {}

  void merge(const std::function<int(std::size_t, int)>& counterpart_of_rank) {
    join_grouped(counterpart_of_rank);
    find_own();
    for (std::size_t position = 0; position < graphs_.size(); ++position) number(position);
    for (std::size_t position = 0; position < graphs_.size(); ++position) add_others(position);
  }

 private:
  // ---- One module for all experts of a rank

  static bool is_grouped(const Graph& graph, NodeId node) {
    const auto is_of_experts = [](std::string_view name) {
      return name.find(engines::kExperts) != std::string_view::npos &&
             name.find(kList) == std::string_view::npos;
    };
    if (graph[node].kind == NodeKind::kModule) return is_of_experts(graph[node].name);
    const NodeId parent = graph[node].parent;
    return parent != kNoNode && is_of_experts(graph[parent].name);
  }

  void join_grouped(const std::function<int(std::size_t, int)>& counterpart_of_rank) {
    Graph& main = *graphs_.front();
    const Shards shards = {.main = main,
                           .others = {graphs_.begin() + 1, graphs_.end()},
                           .counterpart_of_rank = [&](std::size_t other, int rank) {
                             return counterpart_of_rank(other + 1, rank);
                           }};
    ShardMerge merge(shards, "expert parallelism(EP)");
    std::vector<Import> keepers;  // of the dumps the data comes from
    for (const NodeId node : main.post_order()) {
      if (!may_hold_parts(main, node) || !is_grouped(main, node) || !merge.is_everywhere(node)) continue;
      if (!merge.merge(node)) continue;
      NodeData data;
      main.read_data(node, data);
      for (std::size_t i = 1; i < graphs_.size(); ++i) {
        if (keepers.size() < i) keepers.emplace_back(*graphs_[i], main);
        graphs_[i]->set_data(merge.counterpart(node, i - 1), data);
      }
    }
  }

  // ---- A module for each expert

  void find_own() {
    for (std::size_t position = 0; position < graphs_.size(); ++position) {
      const Graph& graph = *graphs_[position];
      std::vector<NodeId> open = {Graph::kRoot};
      while (!open.empty()) {
        const NodeId node = open.back();
        open.pop_back();
        const auto expert = node == Graph::kRoot ? std::nullopt : parse_expert(graph[node].name);
        if (expert) {
          own_[position].push_back(node);
          int& count = counts_[expert->list];
          count = std::max(count, expert->number + 1);
          continue;
        }
        const auto& children = graph[node].children;
        open.insert(open.end(), children.rbegin(), children.rend());
      }
    }
  }

  // Each rank has as many experts; the last ones may have had nothing to do on some.
  void number(std::size_t position) {
    Graph& graph = *graphs_[position];
    std::vector<std::pair<NodeId, std::string>> names;
    for (const NodeId top : own_[position]) {
      const std::optional<ExpertName> found = parse_expert(graph[top].name);
      if (!found) continue;
      const ExpertName& expert = *found;
      const int offset = static_cast<int>(position) * counts_.at(expert.list);
      const Renaming renaming = {expert.prefix(), expert.prefix(offset)};
      std::vector<NodeId> open = {top};
      for (std::size_t next = 0; next < open.size(); ++next) {
        const Node& node = graph[open[next]];
        if (offset > 0 && node.name.starts_with(renaming.from))
          names.emplace_back(open[next], renaming(node.name));
        open.insert(open.end(), node.children.begin(), node.children.end());
      }
    }
    graph.rename(names);
  }

  void add_others(std::size_t position) {
    Graph& main = *graphs_[position];
    for (std::size_t other = 0; other < graphs_.size(); ++other) {
      if (other == position) continue;
      const Graph& from = *graphs_[other];
      Import import(main, from);
      for (const NodeId expert : own_[other]) {
        const NodeId parent = main.find(from[from[expert].parent].name);
        if (parent == kNoNode || main[parent].parent == kNoNode) continue;
        insert(main, parent, import.tree(expert));
      }
    }
  }

  // Before the first of the experts behind it: of a higher number, in the backward pass of a lower one.
  static void insert(Graph& graph, NodeId parent, NodeId node) {
    const std::optional<ExpertName> expert = parse_expert(graph[node].name);
    if (!expert) return graph.attach(node, parent);
    const int number = expert->number;
    const bool backward = trace::RecordName(graph[parent].name).is_backward();
    auto& children = graph[parent].children;
    auto place = children.end();
    for (auto child = children.begin(); child != children.end(); ++child) {
      const auto sibling = parse_expert(graph[*child].name);
      if (!sibling) continue;
      if (backward ? sibling->number < number : sibling->number > number) {
        place = child;
        break;
      }
      place = child + 1;
    }
    children.insert(place, node);
    graph[node].parent = parent;
  }

  std::span<Graph* const> graphs_;
  std::vector<std::vector<NodeId>> own_;  // by graph: its experts, not what is below them
  std::map<std::string, int> counts_;     // experts of a rank, by the list they stand in
};

}  // namespace

void merge_experts(std::span<Graph* const> graphs,
                   const std::function<int(std::size_t index, int rank)>& counterpart_of_rank) {
  if (graphs.size() > 1) Experts(graphs).merge(counterpart_of_rank);
}

}  // namespace msprobe::graph

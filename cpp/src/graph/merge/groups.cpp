// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/merge/groups.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "graph/merge/order.h"
#include "msprobe/engines.h"
#include "msprobe/record_name.h"
#include "trace/match/p2p_batch.h"

namespace msprobe::graph {
namespace {

using trace::Item;
using trace::Record;
using trace::Trace;

std::optional<int> integer(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "[0, 1]"
Group parse_ranks(std::string_view text) {
  Group ranks;
  while (!text.empty()) {
    const std::size_t begin = text.find_first_of("0123456789");
    if (begin == std::string_view::npos) break;
    text.remove_prefix(begin);
    const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
    if (const auto rank = integer(text.substr(0, end))) ranks.push_back(*rank);
    text.remove_prefix(end);
  }
  return ranks;
}

const Item* find_item(const Trace& trace, const Record& record, Item::Part part, std::string_view path) {
  for (const Item& item : trace.items(record)) {
    if (item.part == part && trace.text(item.path) == path) return &item;
  }
  return nullptr;
}

// Data parallelism reduces gradients, also while modules run.
bool is_in_parallel_module(const Graph& graph, std::string_view name) {
  const NodeId node = graph.find(name);
  const NodeId parent = node == kNoNode ? kNoNode : graph[node].parent;
  if (parent == kNoNode || graph[parent].kind != NodeKind::kModule) return false;
  return engines::is_parallel(trace::RecordName(graph[parent].name).type());
}

Group reducing_group(const Graph& graph, bool in_parallel_modules) {
  const Trace& trace = graph.dumps().front()->trace;
  for (const Record& record : trace.records()) {
    const std::string_view name = trace.name(record);
    const bool reduces = name.find("all_reduce") != std::string_view::npos ||
                         name.find("reduce_scatter") != std::string_view::npos;
    if (!reduces || (in_parallel_modules && !is_in_parallel_module(graph, name))) continue;
    const Item* group = find_item(trace, record, Item::Part::kInputKwargs, "group");
    if (group == nullptr) continue;
    if (Group ranks = parse_ranks(trace.text(group->value)); !ranks.empty()) return ranks;
  }
  return {};
}

// The rank that the first send of a rank goes to.
std::optional<int> first_peer(const Graph& graph) {
  const Trace& trace = graph.dumps().front()->trace;
  for (const Record& record : trace.records()) {
    const trace::RecordName name(trace.name(record));
    if (!name.has_collective_prefix()) continue;
    const std::string_view call = name.function();
    if (call == "batch_isend_irecv") {
      for (const trace::PeerOperation& operation : trace::read_peer_operations(trace.path(), record)) {
        if (operation.is_send && operation.peer != graph.rank()) return operation.peer;
      }
    } else if (call == "send" || call == "isend") {
      const Item* peer = find_item(trace, record, Item::Part::kInputKwargs, "dst");
      if (peer == nullptr) peer = find_item(trace, record, Item::Part::kInputArgs, "1");
      if (peer == nullptr) continue;
      if (const auto rank = integer(trace.text(peer->value)); rank && *rank != graph.rank()) return rank;
    }
  }
  return std::nullopt;
}

// Whether merging within the groups of pp leaves, in each group of tp, all or none of its ranks.
bool are_compatible(const std::vector<Group>& tp, const std::vector<Group>& pp) {
  std::set<int> first;
  for (const Group& group : pp) first.insert(group.front());
  return std::all_of(tp.begin(), tp.end(), [&first](const Group& group) {
    const auto count =
        std::count_if(group.begin(), group.end(), [&](int rank) { return first.count(rank) > 0; });
    return count == 0 || static_cast<std::size_t>(count) == group.size();
  });
}

}  // namespace

Places::Places(const std::vector<Group>& groups) : groups_(groups) {
  for (std::size_t group = 0; group < groups.size(); ++group) {
    for (std::size_t position = 0; position < groups[group].size(); ++position) {
      places_.emplace(groups[group][position], std::pair(group, position));
    }
  }
}

int Places::behind(int rank, std::size_t distance) const {
  const auto place = places_.find(rank);
  if (place == places_.end()) return rank;
  const Group& group = groups_[place->second.first];
  return group[(place->second.second + distance) % group.size()];
}

int Places::first(int rank) const { return groups_[places_.at(rank).first].front(); }

std::vector<Group> reducing_groups(std::span<const Graph> ranks, bool in_parallel_modules) {
  std::vector<Group> groups;
  for (const Graph& graph : ranks) {
    Group group = reducing_group(graph, in_parallel_modules);
    if (!group.empty() && std::find(groups.begin(), groups.end(), group) == groups.end()) {
      groups.push_back(std::move(group));
    }
  }
  return groups;
}

std::vector<Group> sending_chains(std::span<const Graph> ranks) {
  std::map<int, int> peers;
  for (const Graph& graph : ranks) {
    if (const auto peer = first_peer(graph)) peers.emplace(graph.rank(), *peer);
  }
  std::vector<Group> chains;
  std::set<int> visited;
  for (const Graph& graph : ranks) {
    Group chain;
    for (int rank = graph.rank(); visited.insert(rank).second;) {
      chain.push_back(rank);
      const auto next = peers.find(rank);
      if (next == peers.end()) break;
      rank = next->second;
    }
    if (!chain.empty()) chains.push_back(std::move(chain));
  }
  return peers.empty() ? std::vector<Group>() : chains;
}

bool covers_ranks(const std::vector<Group>& groups, std::size_t size, std::size_t rank_count) {
  std::vector<bool> seen(rank_count);
  std::size_t count = 0;
  for (const Group& group : groups) {
    if (group.size() != size) return false;
    for (const int rank : group) {
      if (rank < 0 || std::cmp_greater_equal(rank, rank_count) || seen[static_cast<std::size_t>(rank)])
        return false;
      seen[static_cast<std::size_t>(rank)] = true;
      ++count;
    }
  }
  return count == rank_count;
}

std::vector<Group> numbered_groups(const ParallelLayout& layout, std::string_view dimension) {
  struct Digit {
    std::string name;
    int size;
    int stride;
  };
  const int copies = layout.rank_size / (layout.tp * layout.pp * layout.cp);
  std::vector<Digit> digits;
  int stride = 1;
  for (const std::string& name : dimensions_of(layout)) {
    const int size = name == "tp"   ? layout.tp
                     : name == "pp" ? layout.pp
                     : name == "cp" ? layout.cp
                     : name == "ep" ? layout.ep
                                    : copies / layout.ep;
    digits.push_back({name, size, stride});
    stride *= size;
  }
  const auto wanted = std::find_if(digits.begin(), digits.end(),
                                   [dimension](const Digit& digit) { return digit.name == dimension; });
  std::vector<Group> groups;
  for (int rank = 0; rank < layout.rank_size; ++rank) {
    if (wanted == digits.end()) {
      groups.push_back({rank});
    } else if (rank / wanted->stride % wanted->size == 0) {
      groups.emplace_back();
      for (int i = 0; i < wanted->size; ++i) groups.back().push_back(rank + i * wanted->stride);
    }
  }
  return groups;
}

Groups find_groups(std::span<const Graph> ranks, const ParallelLayout& layout) {
  Groups groups = {.tp = numbered_groups(layout, "tp"),
                   .pp = numbered_groups(layout, "pp"),
                   .cp = numbered_groups(layout, "cp"),
                   .ep = numbered_groups(layout, "ep")};
  const auto size = [](int part) { return static_cast<std::size_t>(part); };
  std::vector<Group> tp = groups.tp, pp = groups.pp;
  if (layout.tp > 1) {
    if (auto found = reducing_groups(ranks, false); covers_ranks(found, size(layout.tp), ranks.size())) {
      tp = std::move(found);
    }
  }
  if (layout.pp > 1) {
    if (auto found = sending_chains(ranks); covers_ranks(found, size(layout.pp), ranks.size())) {
      pp = std::move(found);
    }
  }
  // What was found says nothing about the order of the other dimensions.
  const bool is_numbered = tp == groups.tp && pp == groups.pp;
  if (!is_numbered && layout.cp == 1 && layout.ep == 1 && are_compatible(tp, pp)) {
    groups.tp = std::move(tp);
    groups.pp = std::move(pp);
  }
  return groups;
}

}  // namespace msprobe::graph

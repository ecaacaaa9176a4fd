// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/links.h"

#include <algorithm>
#include <array>
#include <optional>

#include "msprobe/record_name.h"
#include "trace/item/item_text.h"
#include "trace/json/json_text.h"
#include "trace/match/p2p_batch.h"
#include "trace/rank_numbers.h"

namespace msprobe::graph {
namespace {

using trace::Item;
using trace::Scalar;
using trace::Trace;
using Calls = CommunicationCalls;

// ---- Functions

enum class Pattern : std::uint8_t {
  kPair,    // two ranks
  kRooted,  // one rank and all others of a group
  kAll      // everybody with everybody
};

struct Function {
  std::string_view name;
  std::string_view partner;     // what the other side calls
  std::string_view argument;    // that names the other rank, or the root
  ExchangeDirection direction;  // of the root, if there is one
  Pattern pattern;
};

constexpr std::array<Function, 8> kFunctions{{
    {"send", "recv", "dst", ExchangeDirection::kSend, Pattern::kPair},
    {"isend", "irecv", "dst", ExchangeDirection::kSend, Pattern::kPair},
    {"recv", "send", "src", ExchangeDirection::kReceive, Pattern::kPair},
    {"irecv", "isend", "src", ExchangeDirection::kReceive, Pattern::kPair},
    {"broadcast", "broadcast", "1", ExchangeDirection::kSend, Pattern::kRooted},
    {"reduce", "reduce", "1", ExchangeDirection::kReceive, Pattern::kRooted},
    {"scatter", "scatter", "src", ExchangeDirection::kSend, Pattern::kRooted},
    {"gather", "gather", "dst", ExchangeDirection::kReceive, Pattern::kRooted},
}};

Function exchange_function(std::string_view name) {
  const auto found = std::find_if(kFunctions.begin(), kFunctions.end(),
                                  [name](const Function& function) { return function.name == name; });
  if (found != kFunctions.end()) return *found;
  return {name, name, {}, ExchangeDirection::kSendReceive, Pattern::kAll};
}

ExchangeDirection opposite(ExchangeDirection direction) {
  return direction == ExchangeDirection::kSend ? ExchangeDirection::kReceive : ExchangeDirection::kSend;
}

// ---- Reading one rank

const Item* find_argument(const Trace& trace, std::span<const Item> items, std::string_view path) {
  const auto found = std::find_if(items.begin(), items.end(), [&](const Item& item) {
    return item.part <= Item::Part::kInput && trace.text(item.path) == path;
  });
  return found == items.end() ? nullptr : &*found;
}

std::optional<int> rank_argument(const Trace& trace, std::span<const Item> items, std::string_view path) {
  const Item* const item = path.empty() ? nullptr : find_argument(trace, items, path);
  const bool is_whole = item != nullptr && item->value.kind == Scalar::Kind::kInteger;
  return is_whole ? trace::whole_number(trace.text(item->value)) : std::nullopt;
}

// Equal for results of which the same is recorded. Numbers are equal by value; NaN equals NaN.
std::string result_text(const Trace& trace, std::span<const Item> items) {
  const auto result = std::find_if(items.begin(), items.end(), [&trace](const Item& item) {
    return item.part == Item::Part::kOutput && trace.text(item.path) == "0";
  });
  if (result == items.end()) return {};
  std::string text(trace::dtype_text(trace, *result));
  text += '|';
  text += trace::shape_text(trace, *result);
  for (const Scalar& statistic : trace::statistics_of(trace, *result)) {
    text += '|';
    if (const auto number = trace.number(statistic)) {
      trace::append_json_real(text, *number);
    } else {
      text += trace.text(statistic);
    }
  }
  return text;
}

class Reader {
 public:
  explicit Reader(const Graph& graph) : graph_(graph) { calls_.rank = graph.rank(); }

  Calls read() {
    for (const NodeId node : graph_.post_order()) {
      const trace::RecordName name(graph_[node].name);
      if (!name.has_collective_prefix() || graph_[node].record == Node::kNoRecord) continue;
      const std::string_view function = name.function();
      function == "batch_isend_irecv" ? read_batch(node) : read_call(node, exchange_function(function));
    }
    return std::move(calls_);
  }

 private:
  void read_call(NodeId node, const Function& function) {
    const Trace& trace = graph_.dump(node).trace;
    const std::span<const Item> items = trace.items(record_of(node));
    const std::optional<int> other = rank_argument(trace, items, function.argument);
    Channel channel;
    channel.function = function.name;
    Calls::Call call;
    if (function.pattern == Pattern::kPair) {
      if (!other) return;
      channel.peer = *other;
      call.result = result_text(trace, items);
    } else {
      const Item* const group = find_argument(trace, items, "group");
      if (group == nullptr || trace.group_id(*group).empty()) return;
      channel.group = trace.group_id(*group);
      call.group = number_of_group(trace.text(group->value));
      call.root = other.value_or(-1);
    }
    add_node(node, 1);
    add_call(std::move(channel), std::move(call));
  }

  void read_batch(NodeId node) {
    const auto operations = trace::read_peer_operations(graph_.dump(node).trace.path(), record_of(node));
    if (operations.empty()) return;
    add_node(node, static_cast<std::uint32_t>(operations.size()));
    std::uint32_t number = 0;
    for (const trace::PeerOperation& operation : operations) {
      Calls::Call call;
      call.operation = number++;
      add_call({.function = operation.is_send ? "isend" : "irecv",
                .group = operation.group,
                .peer = operation.peer,
                .in_batch = true},
               std::move(call));
    }
  }

  const trace::Record& record_of(NodeId node) const {
    return graph_.dump(node).trace.records()[graph_[node].record];
  }

  void add_node(NodeId node, std::uint32_t operations) {
    calls_.nodes.push_back({.id = node, .name = std::string(graph_[node].name), .operations = operations});
  }

  void add_call(Channel channel, Calls::Call call) {
    call.node = static_cast<std::uint32_t>(calls_.nodes.size() - 1);
    calls_.channels[std::move(channel)].push_back(std::move(call));
  }

  std::uint32_t number_of_group(std::string_view ranks) {
    const auto [found, is_new] =
        group_numbers_.try_emplace(std::string(ranks), static_cast<std::uint32_t>(calls_.groups.size()));
    if (is_new) calls_.groups.push_back(trace::numbers_in(ranks));
    return found->second;
  }

  const Graph& graph_;
  Calls calls_;
  std::map<std::string, std::uint32_t> group_numbers_;
};

// ---- Linking

class Linker {
 public:
  explicit Linker(std::span<const Calls> ranks) : ranks_(ranks) {
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      by_rank_.emplace(ranks[i].rank, i);
      auto& nodes = found_.emplace_back();
      for (const Calls::Node& node : ranks[i].nodes) nodes.emplace_back(node.operations);
    }
  }

  std::vector<Link> link() {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      for (const auto& [channel, calls] : ranks_[i].channels) link_channel(i, channel, calls);
    }
    return collect();
  }

 private:
  // The calls of another rank.
  struct Others {
    std::size_t rank = 0;
    const std::vector<Calls::Call>* calls = nullptr;  // null: there are none
  };

  void link_channel(std::size_t rank, const Channel& channel, const std::vector<Calls::Call>& calls) {
    const Function function = exchange_function(channel.function);
    if (function.pattern == Pattern::kPair) return link_pairs(rank, channel, calls, function);
    std::map<std::uint32_t, std::vector<Others>> members;  // by number of the group
    for (std::size_t n = 0; n < calls.size(); ++n) {
      if (function.pattern == Pattern::kRooted && calls[n].root != ranks_[rank].rank) continue;
      const auto [found, is_new] = members.try_emplace(calls[n].group);
      if (is_new) found->second = find_members(ranks_[rank], calls[n].group, channel);
      link_group(rank, calls[n], n, found->second, function);
    }
  }

  void link_pairs(std::size_t rank, const Channel& channel, const std::vector<Calls::Call>& calls,
                  const Function& function) {
    Channel back = channel;
    back.function = function.partner;
    back.peer = ranks_[rank].rank;
    const auto [peer, others] = find(channel.peer, back);
    if (others == nullptr) return;
    for (std::size_t n = 0; n < std::min(calls.size(), others->size()); ++n) {
      const Calls::Call& other = (*others)[n];
      if (calls[n].result == other.result) add(rank, calls[n], function.direction, peer, other);
    }
  }

  // With the n-th calls of the other ranks of its group.
  void link_group(std::size_t rank, const Calls::Call& call, std::size_t n, std::span<const Others> members,
                  const Function& function) {
    for (const auto& [peer, others] : members) {
      if (n >= others->size()) continue;
      const Calls::Call& other = (*others)[n];
      const bool has_another_root = other.root >= 0 && other.root != call.root;
      if (has_another_root) continue;
      add(rank, call, function.direction, peer, other);
      if (function.pattern == Pattern::kRooted) add(peer, other, opposite(function.direction), rank, call);
    }
  }

  Others find(int rank, const Channel& channel) const {
    const auto found = by_rank_.find(rank);
    if (found == by_rank_.end()) return {};
    const auto& channels = ranks_[found->second].channels;
    const auto calls = channels.find(channel);
    return {found->second, calls == channels.end() ? nullptr : &calls->second};
  }

  std::vector<Others> find_members(const Calls& own, std::uint32_t group, const Channel& channel) const {
    std::vector<Others> members;
    for (const int member : own.groups[group]) {
      const Others others = find(member, channel);
      if (member != own.rank && others.calls != nullptr) members.push_back(others);
    }
    return members;
  }

  void add(std::size_t rank, const Calls::Call& call, ExchangeDirection direction, std::size_t peer,
           const Calls::Call& other) {
    Link::Exchange& exchange = found_[rank][call.node][call.operation];
    exchange.direction = direction;
    exchange.peers.push_back({.rank = ranks_[peer].rank, .node = ranks_[peer].nodes[other.node].name});
  }

  std::vector<Link> collect() {
    std::vector<Link> links;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      for (std::size_t node = 0; node < found_[i].size(); ++node) {
        auto& exchanges = found_[i][node];
        const bool is_list = exchanges.size() > 1;
        std::erase_if(exchanges, [](const Link::Exchange& exchange) { return exchange.peers.empty(); });
        if (exchanges.empty()) continue;
        links.push_back({.rank = ranks_[i].rank,
                         .node = ranks_[i].nodes[node].id,
                         .exchanges = std::move(exchanges),
                         .is_list = is_list});
      }
    }
    return links;
  }

  std::span<const Calls> ranks_;
  std::map<int, std::size_t> by_rank_;
  std::vector<std::vector<std::vector<Link::Exchange>>> found_;  // by rank, node, operation
};

// ---- JSON

std::string_view name_of(ExchangeDirection direction) {
  switch (direction) {
    case ExchangeDirection::kSend: return "send";
    case ExchangeDirection::kReceive: return "receive";
    case ExchangeDirection::kSendReceive: return "send_receive";
  }
  return {};
}

void append_exchange(std::string& json, const Link::Exchange& exchange, const NodeText& text) {
  json += R"({"communications_type": ")";
  json += name_of(exchange.direction);
  json += R"(", "nodes_info": {)";
  std::string_view separator;
  for (const Link::Peer& peer : exchange.peers) {
    json += separator;
    json += '"' + std::to_string(peer.rank) + "\": [";
    trace::append_json_string(json, text(peer.rank, peer.node));
    json += ", ";
    trace::append_json_string(json, peer.node);
    json += ']';
    separator = ", ";
  }
  json += "}}";
}

}  // namespace

CommunicationCalls read_calls(const Graph& graph) { return Reader(graph).read(); }

std::vector<Link> link_calls(std::span<const CommunicationCalls> ranks) { return Linker(ranks).link(); }

std::string matched_distributed_json(const Link& link, const NodeText& text) {
  std::string json;
  if (link.is_list) json += '[';
  std::string_view separator;
  for (const Link::Exchange& exchange : link.exchanges) {
    json += separator;
    append_exchange(json, exchange, text);
    separator = ", ";
  }
  if (link.is_list) json += ']';
  return json;
}

std::string index_text(double index, bool is_integer) {
  std::string text;
  trace::append_json_real(text, index);
  if (is_integer && text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

}  // namespace msprobe::graph

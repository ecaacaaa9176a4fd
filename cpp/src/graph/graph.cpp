// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/graph.h"

#include <algorithm>

#include "msprobe/error.h"
#include "msprobe/record_name.h"

namespace msprobe::graph {
namespace {

using trace::Item;

// The name of the node whose stack a backward node takes over, of a module that of its first call; empty:
// `text` is no backward.
std::string forward_of(std::string_view text) {
  const trace::RecordName name(text);
  if (!name.is_backward()) return {};
  if (name.kind() == trace::NameKind::kModule) return std::string(name.callee()) + ".forward.0";
  return name.with(trace::Direction::kForward);
}

std::span<const std::string> no_forward_node() {
  static const std::vector<std::string> kText = {
      "This backward node cannot find the forward node and cannot retrieve stack information."};
  return kText;
}

}  // namespace

Graph::Graph(std::shared_ptr<const Dump> dump) {
  const std::size_t count = std::max(dump->trace.records().size(), dump->construct.entries().size()) + 1;
  nodes_.reserve(count);
  by_name_.reserve(count);
  add_dump(std::move(dump));
  add("DefaultModel", NodeKind::kModule);
}

std::uint16_t Graph::add_dump(std::shared_ptr<const Dump> dump) {
  if (dumps_.size() > 0xffff) throw UnsupportedError("a graph of more than 65536 ranks");
  dumps_.push_back(std::move(dump));
  return static_cast<std::uint16_t>(dumps_.size() - 1);
}

NodeId Graph::find(std::string_view name) const noexcept {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? kNoNode : found->second;
}

std::string_view Graph::keep(std::string_view name) { return names_.emplace_back(name); }

NodeId Graph::add(std::string_view name, NodeKind kind, std::uint16_t source) {
  const Dump& dump = *dumps_[source];
  const auto id = static_cast<NodeId>(nodes_.size());
  Node node;
  node.kind = kind;
  node.source = source;
  if (const auto record = dump.trace.find(name)) {
    node.record = static_cast<std::uint32_t>(*record);
    node.name = dump.trace.name(dump.trace.records()[*record]);
  } else {
    node.name = keep(name);
  }
  node.stack = dump.stacks.frames(name);
  if (node.stack.empty() && !dump.stacks.empty()) {
    if (const std::string forward = forward_of(name); !forward.empty()) {
      const NodeId other = find(forward);
      node.stack = other == kNoNode ? no_forward_node() : nodes_[other].stack;
    }
  }
  by_name_.emplace(node.name, id);
  nodes_.push_back(std::move(node));
  return id;
}

NodeId Graph::add_copy(const Graph& other, NodeId node, std::string_view name, std::uint16_t source) {
  const auto id = static_cast<NodeId>(nodes_.size());
  Node copy = other[node];
  copy.name = keep(name);
  copy.parent = kNoNode;
  copy.children.clear();
  copy.source = source;
  by_name_.emplace(copy.name, id);
  nodes_.push_back(std::move(copy));
  if (const auto data = other.data_.find(node); data != other.data_.end()) data_.emplace(id, data->second);
  return id;
}

void Graph::attach(NodeId child, NodeId parent) {
  nodes_[parent].children.push_back(child);
  nodes_[child].parent = parent;
}

void Graph::detach(NodeId child) {
  const NodeId parent = std::exchange(nodes_[child].parent, kNoNode);
  if (parent != kNoNode) std::erase(nodes_[parent].children, child);
}

void Graph::rename(NodeId node, std::string_view name) {
  by_name_.erase(nodes_[node].name);
  nodes_[node].name = keep(name);
  by_name_.emplace(nodes_[node].name, node);
}

void Graph::rename(std::span<const std::pair<NodeId, std::string>> names) {
  for (const auto& [node, name] : names) by_name_.erase(nodes_[node].name);
  std::vector<NodeId> refused;
  for (const auto& [node, name] : names) {
    const std::string_view kept = keep(name);
    if (by_name_.emplace(kept, node).second) {
      nodes_[node].name = kept;
    } else {
      refused.push_back(node);
    }
  }
  for (const NodeId node : refused) {
    while (!by_name_.emplace(nodes_[node].name, node).second) {
      nodes_[node].name = keep(std::string(nodes_[node].name) + "_");
    }
  }
}

std::vector<NodeId> Graph::post_order() const {
  std::vector<NodeId> order;
  order.reserve(nodes_.size());
  std::vector<std::pair<NodeId, std::size_t>> open = {{kRoot, 0}};  // and its next child
  while (!open.empty()) {
    auto& [node, next] = open.back();
    if (next < nodes_[node].children.size()) {
      open.emplace_back(nodes_[node].children[next++], 0);
    } else {
      order.push_back(node);
      open.pop_back();
    }
  }
  return order;
}

std::vector<NodeId> Graph::path(NodeId node) const {
  std::vector<NodeId> path;
  for (; node != kNoNode; node = nodes_[node].parent) path.push_back(node);
  std::reverse(path.begin(), path.end());
  return path;
}

void Graph::read_data(NodeId id, NodeData& data) const {
  if (const auto changed = data_.find(id); changed != data_.end()) {
    data = changed->second;
    return;
  }
  data.inputs.clear();
  data.outputs.clear();
  data.notes.clear();
  const Node& node = nodes_[id];
  if (node.record == Node::kNoRecord) return;
  const trace::Trace& trace = dump(id).trace;
  const auto items = trace.items(trace.records()[node.record]);
  data.inputs.reserve(items.size());
  const auto take = [&](auto&& wanted, std::vector<Parameter>& into) {
    for (const Item& item : items) {
      if (wanted(item.part)) into.push_back({.trace = &trace, .item = &item, .merged = {}});
    }
  };
  for (const Item::Part part : {Item::Part::kInputArgs, Item::Part::kInputKwargs, Item::Part::kInput,
                                Item::Part::kGradients, Item::Part::kParameters}) {
    take([part](Item::Part other) { return other == part; }, data.inputs);
  }
  take([](Item::Part part) { return part == Item::Part::kOutput; }, data.outputs);
}

void Graph::set_data(NodeId node, NodeData data) { data_.insert_or_assign(node, std::move(data)); }

std::span<const std::string> Graph::notes(NodeId node) const noexcept {
  const auto changed = data_.find(node);
  return changed == data_.end() ? std::span<const std::string>() : changed->second.notes;
}

void append_parameter_name(std::string& out, const Graph& graph, NodeId node, const Parameter& parameter) {
  trace::append_item_name(out, *parameter.trace, graph[node].name, *parameter.item);
  // An operation of batch_isend_irecv is one parameter, whose tensor is what was recorded.
  constexpr std::string_view kTensor = ".tensor";
  if (out.ends_with(kTensor) && trace::RecordName(graph[node].name).function() == "batch_isend_irecv") {
    out.resize(out.size() - kTensor.size());
  }
}

}  // namespace msprobe::graph

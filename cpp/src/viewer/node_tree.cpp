// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "viewer/node_tree.h"

#include <algorithm>
#include <numeric>

namespace msprobe::viewer {

std::uint32_t TextPool::add(std::string_view text) {
  const auto found = numbers_.find(text);
  if (found != numbers_.end()) return found->second;
  const auto number = static_cast<std::uint32_t>(texts_.size());
  numbers_.emplace(texts_.emplace_back(text), number);
  return number;
}

std::optional<std::uint32_t> TextPool::find(std::string_view text) const {
  const auto found = numbers_.find(text);
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

// Puts nodes into post-order, without recursion.
class NodeTree::Builder {
 public:
  Builder(const std::vector<NodePlace>& nodes, std::size_t names, std::uint32_t empty, std::uint32_t root)
      : nodes_(nodes), below_(names), parents_(nodes.size(), kNone), depths_(nodes.size(), kNone) {
    std::vector<std::uint32_t> sorted(nodes.size());
    std::iota(sorted.begin(), sorted.end(), 0U);
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](auto a, auto b) { return nodes[a].order < nodes[b].order; });
    std::vector<std::uint32_t> by_name(names, kNone);
    for (const std::uint32_t node : sorted) by_name[nodes[node].name] = node;
    std::uint32_t top = sorted.back();
    for (const std::uint32_t node : sorted) {
      const std::uint32_t parent = nodes[node].parent;
      if (parent == empty || by_name[parent] == kNone) top = node;
    }
    root_ = by_name[root] != kNone ? by_name[root] : top;
    for (const std::uint32_t node : sorted) {
      if (node == root_) continue;
      const std::uint32_t parent = nodes[node].parent;
      const bool is_known = by_name[parent] != kNone && parent != nodes[node].name;
      below_[is_known ? parent : nodes[root_].name].push_back(node);
    }
    depths_[root_] = 0;
    const std::vector<std::uint32_t> main = down(root_);
    for (const std::uint32_t node : sorted) {
      if (depths_[node] != kNone) continue;  // in a circle
      parents_[node] = root_;
      depths_[node] = 1;
      const std::vector<std::uint32_t> found = down(node);
      order_.insert(order_.end(), found.begin(), found.end());
    }
    order_.insert(order_.end(), main.begin(), main.end());
  }

  std::vector<std::uint32_t> take_order() { return std::move(order_); }
  std::uint32_t parent(std::uint32_t node) const { return parents_[node]; }
  std::uint32_t depth(std::uint32_t node) const { return depths_[node]; }

 private:
  std::vector<std::uint32_t> down(std::uint32_t start) {
    std::vector<std::uint32_t> order;
    std::vector<std::uint32_t> waiting = {start};
    while (!waiting.empty()) {
      const std::uint32_t node = waiting.back();
      waiting.pop_back();
      order.push_back(node);
      for (const std::uint32_t child : below_[nodes_[node].name]) {
        if (depths_[child] != kNone) continue;
        parents_[child] = node;
        depths_[child] = depths_[node] + 1;
        waiting.push_back(child);
      }
    }
    std::reverse(order.begin(), order.end());
    return order;
  }

  const std::vector<NodePlace>& nodes_;
  std::vector<std::vector<std::uint32_t>> below_;  // by the name of the parent
  std::vector<std::uint32_t> parents_, depths_;    // depth kNone: not reached
  std::vector<std::uint32_t> order_;
  std::uint32_t root_ = 0;
};

NodeTree::NodeTree(const std::vector<NodePlace>& nodes, std::size_t names, std::uint32_t empty,
                   std::uint32_t root) {
  if (nodes.empty()) return;
  Builder builder(nodes, names, empty, root);
  order_ = builder.take_order();
  places_.resize(order_.size());
  by_name_.assign(names, kNone);
  for (std::uint32_t pos = 0; pos < order_.size(); ++pos) {
    places_[order_[pos]] = pos;
    by_name_[nodes[order_[pos]].name] = pos;
  }
  firsts_.resize(order_.size());
  std::iota(firsts_.begin(), firsts_.end(), 0U);
  children_.assign(order_.size(), 0);
  for (std::uint32_t pos = 0; pos < order_.size(); ++pos) {
    const std::uint32_t above = builder.parent(order_[pos]);
    const std::uint32_t parent = above == kNone ? kNone : places_[above];
    parents_.push_back(parent);
    depths_.push_back(builder.depth(order_[pos]));
    if (parent == kNone) continue;
    firsts_[parent] = std::min(firsts_[parent], firsts_[pos]);
    ++children_[parent];
  }
}

}  // namespace msprobe::viewer

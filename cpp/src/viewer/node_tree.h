// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace msprobe::viewer {

/// Texts, each kept once, with a number.
class TextPool {
 public:
  TextPool() = default;
  TextPool(const TextPool&) = delete;
  TextPool& operator=(const TextPool&) = delete;

  std::uint32_t add(std::string_view text);
  std::optional<std::uint32_t> find(std::string_view text) const;
  const std::string& operator[](std::uint32_t number) const { return texts_[number]; }
  std::size_t size() const noexcept { return texts_.size(); }

 private:
  std::deque<std::string> texts_;
  std::unordered_map<std::string_view, std::uint32_t> numbers_;  // into texts_
};

/// Where a node of a file hangs.
struct NodePlace {
  std::uint32_t name = 0;    // of the TextPool of names
  std::uint32_t parent = 0;  // likewise
  std::int64_t order = 0;
};

/// The nodes of one side in post-order: children before parents. A place is the number of a node in it. A
/// node whose parent does not exist, and a second root, hang below the root; so does what hangs below itself.
class NodeTree {
 public:
  NodeTree() = default;
  /// `nodes` in the order of the file; the number of a node is its place there. `empty` and `root`: the names
  /// "" and "DefaultModel".
  NodeTree(const std::vector<NodePlace>& nodes, std::size_t names, std::uint32_t empty, std::uint32_t root);

  static constexpr std::uint32_t kNone = UINT32_MAX;

  std::size_t size() const noexcept { return order_.size(); }
  std::uint32_t node(std::size_t pos) const { return order_[pos]; }
  std::uint32_t place_of(std::size_t node) const { return places_[node]; }
  /// The last place with this name, or kNone.
  std::uint32_t find(std::uint32_t name) const { return name < by_name_.size() ? by_name_[name] : kNone; }
  std::uint32_t parent(std::size_t pos) const { return parents_[pos]; }  // kNone: a root
  std::uint32_t first(std::size_t pos) const { return firsts_[pos]; }
  std::uint32_t depth(std::size_t pos) const { return depths_[pos]; }
  std::uint32_t children(std::size_t pos) const { return children_[pos]; }

 private:
  class Builder;
  std::vector<std::uint32_t> order_, places_, by_name_, parents_, firsts_, depths_, children_;
};

}  // namespace msprobe::viewer

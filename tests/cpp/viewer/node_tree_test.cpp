// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "viewer/node_tree.h"

#include <string>
#include <utility>
#include <vector>

#include "catch.h"

using namespace msprobe::viewer;

namespace {

// Names and parents, in the order of execution; the tree as "name<parent:first:depth" in post-order.
std::vector<std::string> post_order(const std::vector<std::pair<std::string, std::string>>& nodes) {
  TextPool names;
  const std::uint32_t empty = names.add("");
  const std::uint32_t root = names.add("DefaultModel");
  std::vector<NodePlace> places;
  for (const auto& [name, parent] : nodes) {
    places.push_back({.name = names.add(name),
                      .parent = names.add(parent),
                      .order = static_cast<std::int64_t>(places.size())});
  }
  const NodeTree tree(places, names.size(), empty, root);
  std::vector<std::string> result;
  for (std::uint32_t pos = 0; pos < tree.size(); ++pos) {
    const auto name_at = [&](std::uint32_t at) {
      return at == NodeTree::kNone ? "-" : names[places[tree.node(at)].name];
    };
    result.push_back(name_at(pos) + "<" + name_at(tree.parent(pos)) + ":" + std::to_string(tree.first(pos)) +
                     ":" + std::to_string(tree.depth(pos)));
    CHECK(tree.place_of(tree.node(pos)) == pos);
  }
  return result;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("NodeTree: children come before parents, in the order of execution") {
  CHECK(post_order({}).empty());
  CHECK(
      post_order(
          {{"DefaultModel", ""}, {"a", "DefaultModel"}, {"a.0", "a"}, {"a.1", "a"}, {"b", "DefaultModel"}}) ==
      Lines{"a.0<a:0:2", "a.1<a:1:2", "a<DefaultModel:0:1", "b<DefaultModel:3:1", "DefaultModel<-:0:0"});
}

TEST_CASE("NodeTree: what has no place hangs below the root") {
  // A parent that does not exist, a second root, and a node that is its own parent.
  CHECK(post_order({{"DefaultModel", ""}, {"a", "nobody"}, {"b", ""}, {"c", "c"}}) ==
        Lines{"a<DefaultModel:0:1", "b<DefaultModel:1:1", "c<DefaultModel:2:1", "DefaultModel<-:0:0"});
  // Two that hang below each other.
  CHECK(post_order({{"DefaultModel", ""}, {"a", "b"}, {"b", "a"}}) ==
        Lines{"b<a:0:2", "a<DefaultModel:0:1", "DefaultModel<-:0:0"});
  // No root of the usual name: the last one without a parent.
  CHECK(post_order({{"x", ""}, {"y", ""}, {"z", "x"}}) == Lines{"z<x:0:2", "x<y:0:1", "y<-:0:0"});
}

TEST_CASE("TextPool keeps each text once") {
  TextPool texts;
  for (int i = 0; i < 1000; ++i)
    CHECK(texts.add("text " + std::to_string(i % 10)) == static_cast<unsigned>(i % 10));
  CHECK(texts.size() == 10);
  CHECK(texts[3] == "text 3");
  CHECK(texts.find("text 4") == 4U);
  CHECK_FALSE(texts.find("text"));
}

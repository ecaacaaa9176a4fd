// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/pt/pickle_graph.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

namespace msprobe::io {
namespace {

using Edges = std::vector<const PtValue**>;

void add_edges(std::vector<const PtValue*>& items, Edges& edges) {
  for (const PtValue*& item : items) edges.push_back(&item);
}

void add_edge(const PtValue*& value, Edges& edges) {
  if (value != nullptr) edges.push_back(&value);
}

void add_edges(PtDict& dict, Edges& edges) {
  for (auto& [key, value] : dict.entries) {
    edges.push_back(&key);
    edges.push_back(&value);
  }
  add_edge(dict.attributes, edges);
}

// The references that `value` holds.
void add_edges(PtValue& value, Edges& edges) {
  if (auto* list = value.as<PtList>()) {
    add_edges(list->items, edges);
  } else if (auto* tuple = value.as<PtTuple>()) {
    add_edges(tuple->items, edges);
  } else if (auto* dict = value.as<PtDict>()) {
    add_edges(*dict, edges);
  } else if (auto* tensor = value.as<PtTensor>()) {
    add_edge(tensor->state, edges);
  } else if (auto* object = value.as<PtObject>()) {
    add_edge(object->arguments, edges);
    add_edge(object->keywords, edges);
    add_edge(object->state, edges);
    add_edges(object->items.items, edges);
    add_edges(object->entries, edges);
  }
}

// Depth first with a stack of its own: a hostile file may nest as deep as it is long.
class Traversal {
 public:
  Traversal(std::uint64_t most_steps, PickleValues& values) : most_steps_(most_steps), values_(values) {}

  void run(PtValue& root) {
    enter(root);
    while (!path_.empty()) {
      Visit& visit = path_.back();
      if (visit.next == visit.end) {
        leave();
        continue;
      }
      const PtValue*& child = *edges_[visit.next++];
      const auto known = extents_.find(child);
      if (known == extents_.end()) {
        enter(const_cast<PtValue&>(*child));  // the values are ours, the tree only shows them as const
      } else if (known->second.height == kOnPath) {
        child = cycle();
      }
    }
  }

 private:
  // What lies below a value.
  struct Extent {
    int height = 0;
    std::uint64_t steps = 0;
  };
  static constexpr int kOnPath = 0;

  struct Visit {
    PtValue* value;
    std::size_t first;  // of its edges
    std::size_t next;
    std::size_t end;
  };

  void enter(PtValue& value) {
    const std::size_t first = edges_.size();
    add_edges(value, edges_);
    if (edges_.size() == first && !path_.empty()) return;  // a leaf, of which nothing need be known
    values_.charge(2 * sizeof(Visit));
    extents_[&value].height = kOnPath;
    path_.push_back({&value, first, first, edges_.size()});
  }

  void leave() {
    const Visit visit = path_.back();
    Extent extent{1, 1};
    for (std::size_t i = visit.first; i < visit.end; ++i) {
      const auto child = extents_.find(*edges_[i]);
      const Extent below = child == extents_.end() ? Extent{1, 1} : child->second;
      extent.height = std::max(extent.height, below.height + 1);
      extent.steps += below.steps;  // cannot overflow: each is below most_steps_, and they are in memory
      if (extent.steps > most_steps_) {
        throw PickleError{"shared values nest in each other: expected at most " +
                          std::to_string(most_steps_) + " values when written out"};
      }
    }
    if (extent.height > kPtDepth) {
      throw PickleError{"values are nested more than " + std::to_string(kPtDepth) + " deep"};
    }
    extents_[visit.value] = extent;
    edges_.resize(visit.first);
    path_.pop_back();
  }

  const PtValue* cycle() {
    if (cycle_ == nullptr) {
      PtObject object;
      object.class_name = "(cycle)";
      cycle_ = values_.add_boxed(std::move(object));
    }
    return cycle_;
  }

  std::uint64_t most_steps_;
  PickleValues& values_;
  Edges edges_;
  std::vector<Visit> path_;
  std::unordered_map<const PtValue*, Extent> extents_;
  const PtValue* cycle_ = nullptr;
};

}  // namespace

void make_finite(PtValue& root, std::uint64_t most_steps, PickleValues& values) {
  Traversal(most_steps, values).run(root);
}

}  // namespace msprobe::io

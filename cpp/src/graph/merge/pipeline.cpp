// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/merge/pipeline.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/reversed.h"
#include "graph/merge/import.h"
#include "graph/merge/layers.h"
#include "graph/merge/merged_data.h"
#include "graph/merge/shards.h"
#include "msprobe/record_name.h"

namespace msprobe::graph {
namespace {

bool is_backward(std::string_view name) { return trace::RecordName(name).is_backward(); }

class Pipeline {
 public:
  Pipeline(Graph& main, std::span<const Graph* const> others) : main_(main), others_(others) {}

  std::vector<NodeId> merge() {
    walk();
    find_containers();
    for (const auto& [node, same] : shared_) hand_over(node, same);
    take_over();
    std::vector<NodeId> containers;
    for (const auto& shared : shared_) {
      if (containers_.count(shared.first) > 0) containers.push_back(shared.first);
    }
    return containers;
  }

 private:
  static constexpr std::size_t kMain = 0;  // stage; 1 is others_[0]

  // A node of a later stage that becomes a child in the graph of the first.
  struct Addition {
    std::size_t stage = 0;
    std::size_t position = 0;  // among the children of its parent
    NodeId node = kNoNode;
  };
  using Same = std::vector<NodeId>;  // the node of the same name in each of others_, or kNoNode

  const Graph& graph_of(std::size_t stage) const { return stage == kMain ? main_ : *others_[stage - 1]; }

  Same same_in_others(NodeId node) const {
    Same same;
    for (const Graph* other : others_) {
      const NodeId found = other->find(main_[node].name);
      const bool is_there = found == Graph::kRoot || (found != kNoNode && (*other)[found].parent != kNoNode);
      same.push_back(is_there ? found : kNoNode);
    }
    return same;
  }

  // ---- What belongs to which

  void walk() {
    std::vector<NodeId> open = {Graph::kRoot};
    while (!open.empty()) {
      const NodeId node = open.back();
      open.pop_back();
      const Same same = same_in_others(node);
      if (is_split(node, same)) {
        for (std::size_t i = 0; i < same.size(); ++i) {
          if (same[i] != kNoNode) add(main_[node].parent, i + 1, same[i]);
        }
        continue;
      }
      if (std::find(same.begin(), same.end(), kNoNode) != same.end()) continue;
      if (node != Graph::kRoot) shared_.emplace_back(node, same);
      add_children_of_others(node, same);
      const auto& children = main_[node].children;
      for (const NodeId child : Reversed(children)) {
        if (main_[child].kind == NodeKind::kModule && !is_of_the_loop(main_[child].name))
          open.push_back(child);
      }
    }
  }

  // Whether the node and its namesakes are different layers. The backward pass is as the forward pass, which
  // knows better: gradients may be all 0.
  bool is_split(NodeId node, const Same& same) {
    if (!parse_layer(main_[node].name)) return false;
    const trace::RecordName name(main_[node].name);
    const NodeId forward = name.is_backward() ? main_.find(name.with(trace::Direction::kForward)) : kNoNode;
    if (forward != kNoNode) return has_other_data(forward, same_in_others(forward));
    return has_other_data(node, same);
  }

  bool has_other_data(NodeId node, const Same& same) {
    return differ(node, same, &NodeData::inputs) && differ(node, same, &NodeData::outputs);
  }

  bool differ(NodeId node, const Same& same, std::vector<Parameter> NodeData::* part) {
    main_.read_data(node, data_);
    for (std::size_t i = 0; i < same.size(); ++i) {
      if (same[i] == kNoNode) continue;
      others_[i]->read_data(same[i], other_data_);
      if (!agree(data_.*part, other_data_.*part)) return true;
    }
    return false;
  }

  void add(NodeId parent, std::size_t stage, NodeId node) {
    const Graph& graph = graph_of(stage);
    const auto& siblings = graph[graph[node].parent].children;
    const auto position = std::find(siblings.begin(), siblings.end(), node) - siblings.begin();
    additions_[parent].push_back({stage, static_cast<std::size_t>(position), node});
  }

  // Children that only later stages have: of layers each, of other modules the last, calls when one stage has
  // them.
  void add_children_of_others(NodeId node, const Same& same) {
    std::unordered_set<std::string_view> own;
    for (const NodeId child : main_[node].children) own.insert(main_[child].name);
    std::map<std::string_view, std::vector<Addition>> found;
    for (std::size_t i = 0; i < same.size(); ++i) {
      const Graph& other = *others_[i];
      const auto& children = other[same[i]].children;
      for (std::size_t position = 0; position < children.size(); ++position) {
        const NodeId child = children[position];
        if (own.count(other[child].name) > 0 || !may_be_added(other, child)) continue;
        found[other[child].name].push_back({i + 1, position, child});
      }
    }
    auto& additions = additions_[node];
    for (const auto& [name, of_stages] : found) {
      if (graph_of(of_stages.front().stage)[of_stages.front().node].kind == NodeKind::kCall) {
        if (of_stages.size() == 1) additions.push_back(of_stages.front());
      } else if (parse_layer(name)) {
        additions.insert(additions.end(), of_stages.begin(), of_stages.end());
      } else {
        additions.push_back(of_stages.back());
      }
    }
  }

  // At the top level calls and collections are communication between the stages.
  bool may_be_added(const Graph& other, NodeId child) const {
    const Node& node = other[child];
    if (node.kind == NodeKind::kCollection || is_of_the_loop(node.name)) return false;
    if (node.parent == Graph::kRoot && node.kind == NodeKind::kCall) return false;
    return node.kind == NodeKind::kCall || main_.find(node.name) == kNoNode;
  }

  void find_containers() {
    for (const auto& [parent, additions] : additions_) {
      const bool has_layers =
          std::any_of(additions.begin(), additions.end(), [this](const Addition& addition) {
            return parse_layer(graph_of(addition.stage)[addition.node].name).has_value();
          });
      if (!has_layers) continue;
      for (NodeId node = parent; node != Graph::kRoot && containers_.insert(node).second;) {
        node = main_[node].parent;
      }
    }
  }

  // ---- Data of modules that all stages have

  // What runs over all stages gets its arguments on the first and gives its results on the last one, and the
  // other way round for gradients. So does what has equal arguments (results) on all stages.
  void hand_over(NodeId node, const Same& same) {
    const bool backward = is_backward(main_[node].name);
    const auto given = backward ? &NodeData::inputs : &NodeData::outputs;
    const auto kept = backward ? &NodeData::outputs : &NodeData::inputs;
    if (!differ(node, same, given)) return;
    if (containers_.count(node) == 0 && differ(node, same, kept)) return;
    main_.read_data(node, data_);
    others_.back()->read_data(same.back(), other_data_);
    data_.*given = other_data_.*given;
    main_.set_data(node, data_);
    import_of(others_.size());  // keeps the dump
  }

  // ---- Nodes of later stages

  struct Child {
    std::size_t stage = kMain;
    NodeId node = kNoNode;
    Renaming renaming;
  };

  void take_over() {
    std::map<NodeId, std::vector<Child>> families;
    std::vector<std::pair<NodeId, std::string>> names;
    for (auto& [parent, additions] : additions_) {
      if (additions.empty()) continue;
      auto& children = families[parent] = ordered(parent, additions);
      number_layers(children);
      for (const Child& child : children) {
        if (child.stage == kMain) add_names(child, names);
      }
    }
    main_.rename(names);
    for (auto& [parent, children] : families) {
      std::vector<NodeId> nodes;
      for (const Child& child : children) {
        nodes.push_back(child.stage == kMain ? child.node
                                             : import_of(child.stage).tree(child.node, child.renaming));
        main_[nodes.back()].parent = parent;
      }
      main_[parent].children = std::move(nodes);
    }
  }

  // Stages behind each other in the forward pass, the last one first in the backward pass.
  std::vector<Child> ordered(NodeId parent, std::vector<Addition>& additions) const {
    std::stable_sort(additions.begin(), additions.end(), [this](const Addition& a, const Addition& b) {
      const bool backward = is_backward(graph_of(a.stage)[a.node].name);
      if (a.stage != b.stage) return backward ? a.stage > b.stage : a.stage < b.stage;
      return a.position < b.position;
    });
    std::vector<Child> before, behind;
    const bool is_root = parent == Graph::kRoot, backward_parent = is_backward(main_[parent].name);
    for (const Addition& addition : additions) {
      const bool backward =
          is_root ? is_backward(graph_of(addition.stage)[addition.node].name) : backward_parent;
      (backward ? before : behind).push_back({addition.stage, addition.node, {}});
    }
    std::vector<Child> children;
    for (const NodeId child : main_[parent].children) children.push_back({kMain, child, {}});
    const auto is_main_backward = [this](const Child& child) { return is_backward(main_[child.node].name); };
    const auto middle =
        is_root ? std::find_if(children.begin(), children.end(), is_main_backward) : children.begin();
    std::vector<Child> result(children.begin(), middle);
    if (is_root) result.insert(result.end(), behind.begin(), behind.end());
    result.insert(result.end(), before.begin(), before.end());
    result.insert(result.end(), middle, children.end());
    if (!is_root) result.insert(result.end(), behind.begin(), behind.end());
    return result;
  }

  void number_layers(std::vector<Child>& children) const {
    std::vector<Child*> layers;
    std::vector<LayerCall> forward_calls, backward_calls;
    for (Child& child : children) {
      const std::string_view name = graph_of(child.stage)[child.node].name;
      const auto layer = parse_layer(name);
      if (!layer) continue;
      LayerCall call = {.list = std::string(layer->list),
                        .identity = std::to_string(child.stage) + ":" + std::string(layer->number)};
      (is_backward(name) ? backward_calls : forward_calls).push_back(std::move(call));
      layers.push_back(&child);
    }
    const auto forward = running_numbers(forward_calls, false),
               backward = running_numbers(backward_calls, true);
    auto next_forward = forward.begin();
    auto next_backward = backward.begin();
    for (Child* child : layers) {
      const std::string_view name = graph_of(child->stage)[child->node].name;
      const auto layer = parse_layer(name);
      if (!layer) continue;
      const std::size_t number = is_backward(name) ? *next_backward++ : *next_forward++;
      child->renaming = {layer->prefix(), std::string(layer->list) + std::to_string(number) + "."};
    }
  }

  void add_names(const Child& child, std::vector<std::pair<NodeId, std::string>>& names) const {
    if (child.renaming.from == child.renaming.to) return;
    std::vector<NodeId> open = {child.node};
    for (std::size_t next = 0; next < open.size(); ++next) {
      const Node& node = main_[open[next]];
      if (node.name.starts_with(child.renaming.from))
        names.emplace_back(open[next], child.renaming(node.name));
      open.insert(open.end(), node.children.begin(), node.children.end());
    }
  }

  Import& import_of(std::size_t stage) {
    return imports_.try_emplace(stage, main_, graph_of(stage)).first->second;
  }

  Graph& main_;
  std::span<const Graph* const> others_;
  std::map<std::size_t, Import> imports_;
  std::vector<std::pair<NodeId, Same>> shared_;  // modules that all stages have, parents first
  std::unordered_set<NodeId> containers_;        // modules whose layers are on several stages
  std::map<NodeId, std::vector<Addition>> additions_;
  NodeData data_, other_data_;
};

}  // namespace

std::vector<NodeId> merge_pipeline(Graph& main, std::span<const Graph* const> others) {
  return others.empty() ? std::vector<NodeId>() : Pipeline(main, others).merge();
}

}  // namespace msprobe::graph

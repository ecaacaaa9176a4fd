// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <future>
#include <map>

#include "base/reversed.h"
#include "graph/call_tree.h"
#include "graph/dotted_name.h"
#include "graph/micro_steps.h"
#include "io/in_quotes.h"
#include "msprobe/error.h"
#include "msprobe/graph.h"
#include "msprobe/packed_step.h"
#include "msprobe/record_name.h"
#include "trace/rank_numbers.h"

namespace msprobe::graph {
namespace {

using Entry = trace::Construct::Entry;
using trace::Direction;
using trace::NameKind;
using trace::RecordName;

NodeKind node_kind(std::string_view name) {
  const bool is_call = trace::begins_as_call(name) || RecordName(name).kind() == NameKind::kCall;
  return is_call ? NodeKind::kCall : NodeKind::kModule;
}

// Empty: `name` is no call of a module.
std::string backward_of_module(std::string_view name) {
  const RecordName parts(name);
  return parts.kind() == NameKind::kModule ? parts.with(Direction::kBackward) : std::string();
}

// ---- Parents

// The hooks of a module run when all gradients of its inputs are there, so a backward call may be recorded
// without a parent, or below a module that ended long ago. Its forward call knows better.
class Parents {
 public:
  explicit Parents(const trace::Construct& construct) : construct_(construct) {}

  // Empty: none.
  std::string_view of(const Entry& entry) const {
    const RecordName name(entry.name);
    const std::string forward = name.is_backward() ? name.with(Direction::kForward) : std::string();
    if (entry.parent.empty()) return forward.empty() ? std::string_view() : backward_parent(forward, {});
    const bool is_module = name.kind() == NameKind::kModule;
    if (forward.empty() || !is_module || hangs_right(name, RecordName(entry.parent))) return entry.parent;
    const Entry* const known = construct_.find(forward);
    if (known == nullptr) return entry.parent;
    return known->parent.empty() ? std::string_view() : backward_parent(forward, entry.parent);
  }

 private:
  static bool hangs_right(const RecordName& name, const RecordName& parent) {
    const std::string_view below = without_parts(name.place(), 1), above = parent.place();
    return below.empty() || above.empty() || below == above;
  }

  // The backward call of the parent of a forward call, if it was recorded.
  std::string_view backward_parent(std::string_view forward, std::string_view otherwise) const {
    const std::string name = backward_of_module(construct_.parent(forward));
    const Entry* const parent = name.empty() ? nullptr : construct_.find(name);
    return parent == nullptr ? otherwise : parent->name;
  }

  const trace::Construct& construct_;
};

void add_construct(Graph& graph, const trace::Construct& construct) {
  const Parents parents(construct);
  const auto node_of = [&graph](std::string_view name, std::int32_t micro_step) {
    NodeId node = graph.find(name);
    if (node == kNoNode) node = graph.add(name, node_kind(name));
    graph[node].micro_step = std::max(graph[node].micro_step, micro_step);
    return node;
  };
  for (const Entry& entry : construct.entries()) {
    const std::string_view parent = parents.of(entry);
    const NodeId above = parent.empty() || parent == entry.name ? Graph::kRoot : node_of(parent, 0);
    const NodeId node = node_of(entry.name, entry.micro_step);
    if (graph[node].parent == kNoNode && node != Graph::kRoot) graph.attach(node, above);
  }
}

// The file of two models names each ancestor of a node in the row of that node, so a small hierarchy that is
// deep, and wide at its end, or whose outer names are long, would make a file that fills the disk. Those of
// models need about ten times their names.
constexpr std::size_t kDeepest = 2000;
constexpr std::size_t kMostPathBytes = std::size_t{256} << 20, kMostPathsByNames = 32;

constexpr const char *kConstruct = "construct.json", *kStacks = "stack.json";

[[noreturn]] void refuse(const Graph& graph, NodeId node, const char* file, const std::string& problem) {
  const std::filesystem::path folder = graph.dumps().front()->trace.path().parent_path();
  throw FormatError((folder / file).string(), io::in_quotes(graph[node].name), problem);
}

// `file`: where the nodes come from.
void check_paths(const Graph& graph, const char* file) {
  struct Open {
    NodeId node;
    std::size_t depth, path_bytes;
  };
  std::size_t names = 0, paths = 0;
  std::vector<Open> open = {{Graph::kRoot, 0, 0}};
  while (!open.empty()) {
    const auto [node, depth, above] = open.back();
    open.pop_back();
    const std::size_t path = above + graph[node].name.size();
    if (depth > kDeepest) {
      refuse(graph, node, file, "found more than " + std::to_string(kDeepest) + " parents above each other");
    }
    names += graph[node].name.size();
    paths += path;
    for (const NodeId child : graph[node].children) open.push_back({child, depth + 1, path});
  }
  if (paths > kMostPathBytes + kMostPathsByNames * names) {
    refuse(graph, Graph::kRoot, file,
           "found nodes whose ways from the top take " + std::to_string(paths >> 20) +
               " MiB to name, expected at most " +
               std::to_string((kMostPathBytes + kMostPathsByNames * names) >> 20) +
               ": many nodes below too many others, or below very long names");
  }
}

// Parents that have no entry of their own hang on the root; the others lead to it, or in a circle.
void tie_to_root(Graph& graph) {
  for (NodeId node = 1; node < graph.nodes().size(); ++node) {
    if (graph[node].parent == kNoNode) graph.attach(node, Graph::kRoot);
  }
  std::vector<NodeId> tied_by(graph.nodes().size(), kNoNode);  // the walk that came along
  tied_by[Graph::kRoot] = Graph::kRoot;
  for (NodeId start = 1; start < graph.nodes().size(); ++start) {
    NodeId node = start;
    for (; tied_by[node] == kNoNode; node = graph[node].parent) tied_by[node] = start;
    if (node != Graph::kRoot && tied_by[node] == start) {
      refuse(graph, node, kConstruct, "its parents lead back to it, expected a tree");
    }
  }
}

// ---- Recomputed modules

// Whether a module at the top may be one that activation checkpointing ran again: its name is that of a
// module inside another.
bool lies_deep(std::string_view name) {
  const auto parts = split_name(name);
  if (parts.size() == 7) return !(is_number(parts[1]) && is_number(parts[3]));
  return parts.size() > 7 || (parts.size() == 6 && !is_number(parts[1]));
}

std::string opposite_of(const RecordName& name) {
  return name.with(name.is_forward() ? Direction::kBackward : Direction::kForward);
}

// Puts modules that ran again during the backward pass where that pass was.
class Recomputation {
 public:
  explicit Recomputation(Graph& graph) : graph_(graph) {}

  void rehang() {
    for (const NodeId node : recomputed()) {
      const RecordName name(graph_[node].name);
      const auto& originals = originals_[name.callee()];
      std::size_t& next = next_[{name.callee(), name.is_forward()}];
      if (next >= originals.size()) continue;
      const NodeId parent = graph_[originals[next++]].parent;
      const NodeId above = graph_.find(backward_of_module(graph_[parent].name));
      if (above == kNoNode || is_below(above, node)) continue;
      graph_.detach(node);
      graph_.attach(node, above);
    }
  }

 private:
  bool is_below(NodeId node, NodeId above) const {
    while (node != above && node != kNoNode) node = graph_[node].parent;
    return node == above;
  }

  // Also notes the calls of the same modules that did not run again.
  std::vector<NodeId> recomputed() {
    std::vector<NodeId> result;
    for (const NodeId node : graph_[Graph::kRoot].children) {
      const RecordName name(graph_[node].name);
      const bool is_call = name.kind() == NameKind::kModule && graph_[node].kind == NodeKind::kModule;
      if (!is_call || !lies_deep(name.text())) continue;
      const NodeId other = graph_.find(opposite_of(name));
      if (other == kNoNode || graph_[other].parent != Graph::kRoot) continue;
      result.push_back(node);
      originals_.try_emplace(name.callee());
    }
    if (result.empty()) return result;
    for (NodeId node = 1; node < graph_.nodes().size(); ++node) {
      const RecordName name(graph_[node].name);
      const bool is_forward = name.kind() == NameKind::kModule && name.is_forward();
      if (graph_[node].parent == Graph::kRoot || !is_forward) continue;
      const auto found = originals_.find(name.callee());
      if (found != originals_.end()) found->second.push_back(node);
    }
    return result;
  }

  Graph& graph_;
  std::map<std::string_view, std::vector<NodeId>> originals_;
  std::map<std::pair<std::string_view, bool>, std::size_t> next_;
};

// ---- Calls between modules

// The next name that nothing in the file has.
std::string collection_name(const Graph& graph, int& count) {
  std::string name;
  do {
    name = "Apis_Between_Modules." + std::to_string(count++);
  } while (graph.find(name) != kNoNode);
  return name;
}

void collect_free_calls(Graph& graph) {
  const std::vector<NodeId> children = std::exchange(graph[Graph::kRoot].children, {});
  int count = 0;
  for (std::size_t i = 0; i < children.size();) {
    std::size_t end = i;
    while (end < children.size() && graph[children[end]].kind == NodeKind::kCall) ++end;
    if (end - i < 2) {
      end = std::max(end, i + 1);
      for (; i < end; ++i) graph[Graph::kRoot].children.push_back(children[i]);
      continue;
    }
    const NodeId collection = graph.add(collection_name(graph, count), NodeKind::kCollection);
    graph[collection].micro_step = graph[children[i]].micro_step;
    graph.attach(collection, Graph::kRoot);
    for (; i < end; ++i) graph.attach(children[i], collection);
  }
}

// ---- Gradients of parameters

void add_gradients(Graph& graph, const trace::Trace& trace) {
  std::unordered_map<std::string_view, std::pair<int, NodeId>>
      last_backward;  // of a module: "Module.fc.Linear"
  for (NodeId node = 1; node < graph.nodes().size(); ++node) {
    const RecordName name(graph[node].name);
    if (name.kind() != NameKind::kModule || !name.is_backward()) continue;
    const int number = trace::whole_number(name.count()).value_or(0);
    const auto [found, is_new] = last_backward.try_emplace(name.callee(), number, node);
    if (!is_new && found->second.first <= number) found->second = {number, node};
  }
  for (const trace::Record& record : trace.records()) {
    const RecordName name(trace.name(record));
    if (name.kind() != NameKind::kGradients || graph.find(name.text()) != kNoNode) continue;
    const auto found = last_backward.find(name.callee());
    if (found == last_backward.end()) continue;
    const NodeId parent = found->second.second;
    const NodeId node = graph.add(name.text(), NodeKind::kModule);
    graph[node].micro_step = graph[parent].micro_step;
    graph.attach(node, parent);
  }
}

// ---- Micro steps

// A pass forward and backward of the whole model is one.
void number_micro_steps(Graph& graph) {
  std::int32_t step = 0;
  bool seen_backward = false;
  for (const NodeId child : graph[Graph::kRoot].children) {
    if (graph[child].kind == NodeKind::kModule) {
      const bool is_forward = RecordName(graph[child].name).is_forward();
      if (is_forward && seen_backward) ++step;
      seen_backward = !is_forward;
    }
    graph[child].micro_step = step;
  }
  graph.set_micro_steps(step + 1);
  inherit_micro_steps(graph);
}

}  // namespace

void inherit_micro_steps(Graph& graph) {
  const auto order = graph.post_order();
  for (const NodeId node : Reversed(order)) {  // parents before their children
    if (node == Graph::kRoot || graph[node].parent == Graph::kRoot) continue;
    graph[node].micro_step = graph[graph[node].parent].micro_step;
  }
}

Graph build(const std::shared_ptr<const Dump>& dump) {
  Graph graph(dump);
  if (dump->construct.entries().empty()) {
    add_call_tree(graph);
    check_paths(graph, kStacks);
    return graph;
  }
  add_construct(graph, dump->construct);
  tie_to_root(graph);
  check_paths(graph, kConstruct);
  Recomputation(graph).rehang();
  collect_free_calls(graph);
  add_gradients(graph, dump->trace);
  if (const auto count = dump->construct.micro_steps()) {
    graph.set_micro_steps(*count);
  } else {
    number_micro_steps(graph);
  }
  return graph;
}

Dump read_dump(const std::filesystem::path& folder, int step, int rank) {
  const auto read_if_there = [&folder](const char* name, auto read) {
    const std::filesystem::path path = folder / name;
    return io::is_there(path) ? read(path) : decltype(read(path))();
  };
  // dump.json is much the longest.
  auto construct =
      std::async(std::launch::async, [&] { return read_if_there("construct.json", trace::read_construct); });
  auto stacks =
      std::async(std::launch::async, [&] { return read_if_there("stack.json", trace::read_stacks); });
  trace::Trace trace = trace::read_trace(folder / "dump.json");
  return {.trace = std::move(trace),
          .construct = construct.get(),
          .stacks = stacks.get(),
          .step = step,
          .rank = rank};
}

}  // namespace msprobe::graph

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/call_tree.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/reversed.h"
#include "graph/stack_frame.h"
#include "msprobe/record_name.h"

namespace msprobe::graph {
namespace {

// Everything but the text of the line, which says no more than its number.
std::string_view without_line_text(std::string_view frame) { return frame.substr(0, frame.find(", \n")); }

class CallTree {
 public:
  explicit CallTree(Graph& graph) : graph_(graph), package_(graph.dumps().front()->trace.package()) {}

  void add(std::string_view record) {
    if (graph_.find(record) != kNoNode) return;
    const NodeId node = graph_.add(record, NodeKind::kCall);
    const bool is_backward = trace::RecordName(record).is_backward();
    const auto stack = graph_[node].stack;  // a copy: nodes move when one is added
    NodeId above = Graph::kRoot;
    if (is_backward) above = function_node(Graph::kRoot, "backward", "backward");
    for (const std::string& frame : Reversed(stack)) {
      const std::string_view function = function_of(frame);
      if (!function.empty() && !is_of_package(frame, package_))
        above = function_node(above, without_line_text(frame), function);
    }
    graph_.attach(node, above);
  }

 private:
  NodeId function_node(NodeId above, std::string_view place, std::string_view function) {
    const auto [found, is_new] = nodes_.try_emplace({above, place}, kNoNode);
    if (!is_new) return found->second;
    const NodeId node = graph_.add(free_name(function), NodeKind::kModule);
    graph_.attach(node, above);
    return found->second = node;
  }

  // "Stack.train_step.0"; a record may be called so, too, and keeps its name.
  std::string free_name(std::string_view function) {
    std::string stem = "Stack." + std::string(function) + '.';
    std::replace(stem.begin() + 6, stem.end() - 1, '.', '_');
    int& count = counts_[stem];
    for (;;) {
      std::string name = stem + std::to_string(count++);
      if (!graph_.dumps().front()->trace.find(name)) return name;
    }
  }

  Graph& graph_;
  std::string_view package_;  // of the framework, whose own functions are left out
  std::map<std::pair<NodeId, std::string_view>, NodeId> nodes_;
  std::map<std::string, int, std::less<>> counts_;
};

}  // namespace

void add_call_tree(Graph& graph) {
  const std::shared_ptr<const Dump> dump = graph.dumps().front();
  CallTree tree(graph);
  for (const trace::Record& record : dump->trace.records()) tree.add(dump->trace.name(record));
}

}  // namespace msprobe::graph

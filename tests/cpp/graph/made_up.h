// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/graph.h"

/// Dumps that were made up for a test.
namespace msprobe::test {

/// A tensor in dump.json; the numbers are those of the file: "1.5", "NaN".
struct MadeTensor {
  std::string max = "1.0", min = "-1.0", mean = "0.1", norm = "2.0";
  std::string shape = "[2, 3]";
  std::string dtype = "torch.float32";
  std::string more;  // further keys: R"(,"md5":"00000000")"

  std::string json() const {
    return R"({"type":"torch.Tensor","dtype":")" + dtype + R"(","shape":)" + shape + R"(,"Max":)" + max +
           R"(,"Min":)" + min + R"(,"Mean":)" + mean + R"(,"Norm":)" + norm + R"(,"requires_grad":false)" +
           more + "}";
  }
};

/// The files of one rank.
class MadeDump {
 public:
  explicit MadeDump(std::string task = "statistics") : task_(std::move(task)) {}

  /// An entry of construct.json alone. `parent`: JSON: "null", a name in quotes, a list.
  MadeDump& entry(std::string_view name, std::string_view parent) {
    add(construct_, name, parent);
    return *this;
  }
  /// A record of dump.json alone. `content`: what stands in it, without its braces.
  MadeDump& record(std::string_view name, std::string_view content) {
    add(data_, name, "{" + std::string(content) + "}");
    return *this;
  }
  /// A call with one input and one output, in both files. `parent`: a name; empty: none.
  MadeDump& call(std::string_view name, std::string_view parent = {}, const MadeTensor& output = {},
                 const MadeTensor& input = {}) {
    record(name, R"("input_args":[)" + input.json() + R"(],"output":[)" + output.json() + "]");
    return entry(name, parent.empty() ? "null" : '"' + std::string(parent) + '"');
  }
  /// Frames of the stack of a record, the innermost first, as they stand in the file.
  MadeDump& stack(std::string_view name, const std::vector<std::string>& frames) {
    std::string json;
    for (const std::string& frame : frames) json += (json.empty() ? "\"" : ",\"") + frame + '"';
    add(stacks_, name, "[" + json + "]");
    return *this;
  }

  std::string dump_json() const {
    return R"({"task":")" + task_ + R"(","level":"mix","framework":"pytorch","dump_data_dir":null,"data":{)" +
           data_ + "}}";
  }
  std::string construct_json() const { return "{" + construct_ + "}"; }
  std::string stack_json() const { return "{" + stacks_ + "}"; }

  std::shared_ptr<graph::Dump> read(int rank = 0, int step = 0) const {
    auto dump = std::make_shared<graph::Dump>();
    dump->trace = trace::parse_trace(dump_json(), "run/dump.json");
    dump->construct = trace::parse_construct(construct_json(), "run/construct.json");
    dump->stacks = trace::parse_stacks(stack_json(), "run/stack.json");
    dump->rank = rank;
    dump->step = step;
    return dump;
  }
  graph::Graph build() const { return graph::build(read()); }

 private:
  static void add(std::string& into, std::string_view name, std::string_view json) {
    if (!into.empty()) into += ",\n";
    into += '"' + std::string(name) + "\":" + std::string(json);
  }

  std::string task_, data_, construct_, stacks_;
};

/// Names of nodes, for messages and comparisons.
inline std::vector<std::string> names_of(const graph::Graph& graph, const std::vector<graph::NodeId>& nodes) {
  std::vector<std::string> names;
  for (const graph::NodeId node : nodes) names.emplace_back(graph[node].name);
  return names;
}

/// Names of the children of a node that is there.
inline std::vector<std::string> children_of(const graph::Graph& graph,
                                            std::string_view name = "DefaultModel") {
  return names_of(graph, graph[graph.find(name)].children);
}

/// Name of the parent of a node; "-": it is not there; empty: it has none.
inline std::string parent_of(const graph::Graph& graph, std::string_view name) {
  const graph::NodeId node = graph.find(name);
  if (node == graph::kNoNode) return "-";
  const graph::NodeId parent = graph[node].parent;
  return parent == graph::kNoNode ? std::string() : std::string(graph[parent].name);
}

/// The message of the `Error` that `work` ends with; empty: it ends without.
template <typename Error, typename Work>
std::string problem_of(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

inline bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace msprobe::test

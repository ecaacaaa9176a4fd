// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "graph/merge/merged_data.h"
#include "graph/merge_graphs.h"
#include "msprobe/record_name.h"

// Merged graphs of real jobs: those that the existing tool made, and that of the model on one rank.
namespace msprobe::graph {
namespace {

struct Tensor {
  std::string name;
  std::vector<std::string> cells;  // max, min, mean, norm
};

struct GoldenNode {
  std::string name, kind, parent, micro_step;
  std::vector<std::string> children, notes;
  std::vector<Tensor> inputs, outputs;
};

std::vector<GoldenNode> nodes_of(const std::vector<Row>& golden) {
  std::vector<GoldenNode> nodes;
  for (const Row& row : golden) {
    if (row[0] == "N") {
      nodes.push_back({row[1], row[2], row[3] == "-" ? "" : row[3], row[4], {}, {}, {}, {}});
    } else if (row[0] == "C") {
      nodes.back().children.assign(row.begin() + 1, row.end());
    } else if (row[0] == "I" || row[0] == "O") {
      (row[0] == "I" ? nodes.back().inputs : nodes.back().outputs)
          .push_back({row[1], {row.begin() + 2, row.end()}});
    } else if (row[0] == "M") {
      nodes.back().notes.push_back(row[1]);
    }
  }
  return nodes;
}

// Cells have 6 decimals, or 6 digits behind the point of a power of ten.
void check_tensors(const Graph& graph, NodeId node, const std::vector<Parameter>& found,
                   const std::vector<Tensor>& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    std::string name;
    append_parameter_name(name, graph, node, found[i]);
    CHECK(name == expected[i].name);
    const auto numbers = numbers_of(found[i]);
    if (found[i].item->kind != trace::Item::Kind::kTensor) continue;
    REQUIRE(numbers.has_value() == (expected[i].cells[0] != "-"));
    for (std::size_t k = 0; numbers && k < numbers->size(); ++k) {
      INFO(name << " " << k);
      const double cell = std::stod(expected[i].cells[k]);
      const bool has_power = expected[i].cells[k].find('e') != std::string::npos;
      CHECK(std::abs((*numbers)[k] - cell) <= (has_power ? 1e-6 * std::abs(cell) : 0.51e-6));
    }
  }
}

// Where the result differs on purpose (docs/formats/graph_merge.md).
struct Exceptions {
  std::function<bool(const std::string& node)> is_new = [](const std::string&) { return false; };
  // Modules that run over all stages have results, and gradients, of the last one.
  std::function<bool(const std::string& node)> has_other_data = [](const std::string&) { return false; };
};

bool runs_over_stages(const std::string& node) {
  return node.find("GPTModel") != std::string::npos || node.find("TransformerBlock") != std::string::npos;
}

void check_graph(const Graph& graph, const std::vector<GoldenNode>& golden, const Exceptions& exceptions) {
  std::vector<NodeId> order;
  for (const NodeId node : graph.post_order()) {
    if (!exceptions.is_new(name_of(graph, node))) order.push_back(node);
  }
  REQUIRE(order.size() == golden.size());
  NodeData data;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const GoldenNode& expected = golden[i];
    const Node& node = graph[order[i]];
    INFO(expected.name);
    REQUIRE(node.name == expected.name);
    CHECK(graph.find(node.name) == order[i]);
    CHECK(std::to_string(static_cast<int>(node.kind)) == expected.kind);
    CHECK(name_of(graph, node.parent) == expected.parent);
    if (expected.micro_step != "-") CHECK(std::to_string(node.micro_step) == expected.micro_step);
    std::vector<std::string> children;
    for (const NodeId child : node.children) {
      if (!exceptions.is_new(name_of(graph, child))) children.push_back(name_of(graph, child));
    }
    CHECK(children == expected.children);
    if (exceptions.has_other_data(expected.name)) continue;
    graph.read_data(order[i], data);
    check_tensors(graph, order[i], data.inputs, expected.inputs);
    check_tensors(graph, order[i], data.outputs, expected.outputs);
    CHECK(data.notes == expected.notes);
  }
}

}  // namespace

TEST_CASE("Ranks are merged as by the existing tool") {
  SECTION("one rank: only the collections are wrapped") {
    const auto golden = read_golden("one");
    check_graph(merge_one(ranks_of(golden), {}), nodes_of(golden), {});
  }
  SECTION("tensor parallelism") {
    const auto golden = read_golden("tp2");
    check_graph(merge_one(ranks_of(golden), {.rank_size = 2, .tp = 2}), nodes_of(golden), {});
  }
  SECTION("pipeline parallelism") {
    const auto golden = read_golden("pp2");
    check_graph(merge_one(ranks_of(golden), {.rank_size = 2, .pp = 2}), nodes_of(golden),
                {.has_other_data = runs_over_stages});
  }
  SECTION("virtual pipelines") {
    // The existing tool loses what only the last chunk has.
    const auto golden = read_golden("vpp2");
    const auto is_of_last_chunk = [](const std::string& name) {
      return name.find("output_layer") != std::string::npos || name.find("Functional.linear_rank1.") == 0;
    };
    check_graph(merge_one(ranks_of(golden), {.rank_size = 2, .pp = 2, .vpp = 2}), nodes_of(golden),
                {.is_new = is_of_last_chunk, .has_other_data = runs_over_stages});
  }
  SECTION("tensor and pipeline parallelism") {
    const auto golden = read_golden("tppp");
    check_graph(merge_one(ranks_of(golden), {.rank_size = 4, .tp = 2, .pp = 2}), nodes_of(golden),
                {.has_other_data = runs_over_stages});
  }
}

namespace {

// Calls that the parallel models have besides those of the models on one rank, or with fewer results.
bool is_of_parallelism(std::string_view call) {
  constexpr std::array<std::string_view, 5> kCalls = {"view_as", "empty_like", "cat", "narrow", "split"};
  const trace::RecordName record(call);
  const std::string_view name = record.function();
  return record.has_collective_prefix() ||
         std::any_of(kCalls.begin(), kCalls.end(),
                     [name](std::string_view own) { return name.starts_with(own); });
}

// "Torch.matmul.forward" of "Torch.matmul_rank2.0.forward".
std::string operator_of(std::string_view call) {
  const trace::RecordName name(call);
  return std::string(name.prefix()) + "." +
         std::string(name.function().substr(0, name.function().find("_rank"))) +
         (name.is_backward() ? ".backward" : ".forward");
}

std::vector<NodeId> calls_of(const Graph& graph, NodeId module) {
  std::vector<NodeId> calls;
  for (const NodeId child : graph[module].children) {
    if (graph[child].kind == NodeKind::kCall && !is_of_parallelism(graph[child].name)) calls.push_back(child);
  }
  return calls;
}

// The tensors whose statistics are not equal within rounding, as "node: in 0".
void compare_data(const Graph& merged, NodeId node, const Graph& single, NodeId same,
                  std::vector<std::string>& different) {
  NodeData left, right;
  merged.read_data(node, left);
  single.read_data(same, right);
  for (const auto part : {&NodeData::inputs, &NodeData::outputs}) {
    for (std::size_t i = 0; i < (right.*part).size(); ++i) {
      const Parameter& wanted = (right.*part)[i];
      const auto expected = numbers_of(wanted);
      if (!expected || wanted.item->kind != trace::Item::Kind::kTensor) continue;
      const Parameter* parameter = find_same(left.*part, wanted, i);
      REQUIRE(parameter != nullptr);
      const auto found = numbers_of(*parameter);
      REQUIRE(found);
      const double size = std::max(std::abs((*expected)[0]), std::abs((*expected)[1]));
      bool is_equal = true;
      for (std::size_t k = 0; k < found->size(); ++k) {
        const double scale = k == 3 ? (*expected)[3] : size;
        is_equal = is_equal && std::abs((*found)[k] - (*expected)[k]) <= 1e-5 * scale;
      }
      const char* const section = part == &NodeData::inputs ? ": in " : ": out ";
      if (!is_equal) different.push_back(name_of(single, same) + section + std::to_string(i));
    }
  }
}

// What is different in a model and in what was merged of its parts. Modules have the same names; the calls in
// them follow each other in the same order.
std::vector<std::string> differences(const Graph& merged, const Graph& single, std::size_t expected_count,
                                     std::string_view modules = "") {
  std::vector<std::string> different;
  std::size_t compared = 0;
  for (const NodeId same : single.post_order()) {
    if (single[same].kind != NodeKind::kModule || same == Graph::kRoot) continue;
    if (single[same].name.find(modules) == std::string_view::npos) continue;
    INFO(name_of(single, same));
    const NodeId node = merged.find(single[same].name);
    REQUIRE(node != kNoNode);
    CHECK(name_of(merged, merged[node].parent) == name_of(single, single[same].parent));
    compare_data(merged, node, single, same, different);
    const auto calls = calls_of(merged, node), expected = calls_of(single, same);
    REQUIRE(calls.size() == expected.size());
    for (std::size_t i = 0; i < calls.size(); ++i) {
      REQUIRE(operator_of(merged[calls[i]].name) == operator_of(single[expected[i]].name));
      compare_data(merged, calls[i], single, expected[i], different);
    }
    compared += 1 + calls.size();
  }
  CHECK(compared == expected_count);
  return different;
}

const std::vector<std::string> kNothing;

}  // namespace

TEST_CASE("Four ranks merged are the model on one rank") {
  const auto golden = read_golden("tppp");
  const Graph single = merge_one(ranks_of(read_golden("one")), {});
  SECTION("as they communicate") {
    CHECK(differences(merge_one(ranks_of(golden), {.rank_size = 4, .tp = 2, .pp = 2}), single, 138) ==
          kNothing);
  }
  SECTION("twice, as they are numbered") {
    const auto eight_ranks = [&golden] {
      std::vector<Row> files;
      for (const Row& row : golden) {
        if (row[0] == "D" || row[0] == "S") files.push_back(row);
      }
      std::vector<Row> of_eight;
      for (const std::size_t rank : {0, 1, 0, 1, 2, 3, 2, 3}) {
        of_eight.insert(of_eight.end(), {files[rank * 2], files[rank * 2 + 1]});
      }
      return ranks_of(of_eight);
    };
    const auto copies = merge_ranks(eight_ranks(), {.rank_size = 8, .tp = 2, .pp = 2});
    REQUIRE(copies.size() == 2);
    for (const Graph& copy : copies) CHECK(differences(copy, single, 138) == kNothing);
    CHECK(copies[1].rank() == 2);
    CHECK(children_of(copies[1], "Apis_Between_Modules_All_Ranks.0") ==
          std::vector<std::string>{"Apis_Between_Modules_Rank2.0", "Apis_Between_Modules_Rank3.0",
                                   "Apis_Between_Modules_Rank6.0", "Apis_Between_Modules_Rank7.0"});
    // Copies of a tensor are no parts of a sequence.
    CHECK(differences(merge_one(eight_ranks(), {.rank_size = 8, .tp = 2, .pp = 2, .cp = 2}), single, 138) ==
          kNothing);
    CHECK(merge_ranks(eight_ranks(), {.rank_size = 8, .tp = 2, .pp = 2, .ep = 2}).size() == 2);
  }
}

TEST_CASE("Stages merged are the model on one rank") {
  const Graph single = merge_one(ranks_of(read_golden("one")), {});
  CHECK(differences(merge_one(ranks_of(read_golden("pp2")), {.rank_size = 2, .pp = 2}), single, 138) ==
        kNothing);
  CHECK(differences(merge_one(ranks_of(read_golden("vpp2")), {.rank_size = 2, .pp = 2, .vpp = 2}), single,
                    138) == kNothing);
}

TEST_CASE("Halves of sequences are the model on one rank, but for summands") {
  const Graph single = merge_one(ranks_of(read_golden("cp1")), {});
  const Graph merged = merge_one(ranks_of(read_golden("cp2")), {.rank_size = 2, .cp = 2});
  const auto different = differences(merged, single, 48);
  std::size_t summands = 0;
  for (const std::string& place : different) {
    INFO(place);
    NodeData data;
    merged.read_data(merged.find(place.substr(0, place.find(':'))), data);
    const auto says_so = [](const std::string& note) {
      return note.find("different summands") != std::string::npos;
    };
    CHECK(std::any_of(data.notes.begin(), data.notes.end(), says_so));
  }
  // Gradients of 6 weights and biases, of modules and in calls, and of gathered keys and values.
  CHECK(different.size() == 6 * 4 + 2 + 2);
  for (NodeId node = 0; node < merged.nodes().size(); ++node) {
    for (const std::string& note : merged.notes(node))
      summands += note.find("different summands") != std::string::npos;
  }
  CHECK(summands == different.size());
}

TEST_CASE("Experts of two ranks are those of one rank") {
  const Graph single = merge_one(ranks_of(read_golden("ep1")), {});
  const auto merged = merge_ranks(ranks_of(read_golden("ep2")), {.rank_size = 2, .ep = 2});
  REQUIRE(merged.size() == 2);
  for (const Graph& graph : merged) CHECK(differences(graph, single, 58, "experts") == kNothing);
}

}  // namespace msprobe::graph

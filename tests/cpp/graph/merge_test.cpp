// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <libdeflate.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>

#include "catch.h"
#include "msprobe/error.h"
#include "msprobe/graph_merge.h"
#include "temp_dir.h"

namespace msprobe::graph {
namespace {

// ---- Golden data: tests/data/graph/make_merge.py

using Row = std::vector<std::string>;

std::vector<Row> read_golden(const std::string& name) {
  const std::string packed = test::read_bytes(MSPROBE_TEST_DATA "/graph/merge/" + name + ".deflate");
  std::uint32_t size = 0;
  REQUIRE(packed.size() > sizeof(size));
  std::memcpy(&size, packed.data(), sizeof(size));
  std::string text(size, '\0');
  const std::unique_ptr<libdeflate_decompressor, void (*)(libdeflate_decompressor*)> unpack(
      libdeflate_alloc_decompressor(), libdeflate_free_decompressor);
  REQUIRE(libdeflate_deflate_decompress(unpack.get(), packed.data() + sizeof(size), packed.size() - sizeof(size),
                                        text.data(), text.size(), nullptr) == LIBDEFLATE_SUCCESS);
  std::vector<Row> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    rows.emplace_back();
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, '\t');) rows.back().push_back(cell);
  }
  return rows;
}

Graph graph_of(std::string dump, std::string construct, int rank, int step = 0) {
  const std::string folder = "rank" + std::to_string(rank);
  auto read = std::make_shared<Dump>();
  read->trace = trace::parse_trace(std::move(dump), folder + "/dump.json");
  read->construct = trace::parse_construct(std::move(construct), folder + "/construct.json");
  read->rank = rank;
  read->step = step;
  return build(std::move(read));
}

std::vector<Graph> ranks_of(const std::vector<Row>& golden) {
  std::vector<Graph> ranks;
  const std::string* dump = nullptr;
  for (const Row& row : golden) {
    if (row[0] == "D") dump = &row[1];
    if (row[0] == "S") ranks.push_back(graph_of(*dump, row[1], static_cast<int>(ranks.size())));
  }
  return ranks;
}

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
      (row[0] == "I" ? nodes.back().inputs : nodes.back().outputs).push_back({row[1], {row.begin() + 2, row.end()}});
    } else if (row[0] == "M") {
      nodes.back().notes.push_back(row[1]);
    }
  }
  return nodes;
}

std::optional<Statistics> numbers_of(const Parameter& parameter) {
  if (parameter.merged) return parameter.merged;
  const trace::Item& item = *parameter.item;
  Statistics numbers{};
  std::size_t i = 0;
  for (const trace::Scalar* scalar : {&item.max, &item.min, &item.mean, &item.norm}) {
    const auto number = parameter.trace->number(*scalar);
    if (!number) return std::nullopt;
    numbers[i++] = *number;
  }
  return numbers;
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

std::string name_of(const Graph& graph, NodeId node) {
  return node == kNoNode ? std::string() : std::string(graph[node].name);
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

Graph merge_one(std::vector<Graph> ranks, const ParallelLayout& layout) {
  auto merged = merge_ranks(std::move(ranks), layout);
  REQUIRE(merged.size() == 1);
  return std::move(merged.front());
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

// Calls that the parallel model has besides those of the model on one rank.
bool is_of_parallelism(std::string_view call) {
  return call.starts_with("Distributed.") || call.starts_with("Tensor.view_as");
}

// "Torch.matmul.forward" of "Torch.matmul_rank2.0.forward".
std::string operator_of(std::string_view call) {
  const std::string second(name_part(call, 1));
  return std::string(name_part(call, 0)) + "." + second.substr(0, second.find("_rank")) + "." +
         std::string(name_part(call, 3));
}

std::vector<NodeId> calls_of(const Graph& graph, NodeId module) {
  std::vector<NodeId> calls;
  for (const NodeId child : graph[module].children) {
    if (graph[child].kind == NodeKind::kCall && !is_of_parallelism(graph[child].name)) calls.push_back(child);
  }
  return calls;
}

// The statistics that are not equal within rounding, as "node: section position".
void compare_data(const Graph& merged, NodeId node, const Graph& single, NodeId same,
                  std::vector<std::string>& different) {
  NodeData left, right;
  merged.read_data(node, left);
  single.read_data(same, right);
  for (const auto part : {&NodeData::inputs, &NodeData::outputs}) {
    REQUIRE((left.*part).size() == (right.*part).size());
    for (std::size_t i = 0; i < (left.*part).size(); ++i) {
      const auto found = numbers_of((left.*part)[i]), expected = numbers_of((right.*part)[i]);
      REQUIRE(found.has_value() == expected.has_value());
      if (!found) continue;
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

}  // namespace

TEST_CASE("Four ranks merged are the model on one rank") {
  const Graph merged = merge_one(ranks_of(read_golden("tppp")), {.rank_size = 4, .tp = 2, .pp = 2});
  const Graph single = merge_one(ranks_of(read_golden("one")), {});
  std::vector<std::string> different;
  std::size_t compared = 0;
  for (const NodeId same : single.post_order()) {
    if (single[same].kind != NodeKind::kModule || same == Graph::kRoot) continue;
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
  CHECK(compared == 138);
  CHECK(different == std::vector<std::string>());
}

}  // namespace msprobe::graph

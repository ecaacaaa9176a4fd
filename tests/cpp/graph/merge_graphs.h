// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <libdeflate.h>

#include <cstring>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "catch.h"
#include "msprobe/graph_merge.h"
#include "temp_dir.h"

/// Graphs of ranks for the tests of merging, and what they are asked.
namespace msprobe::graph {

/// A line of golden data (tests/data/graph/make_merge.py): its cells.
using Row = std::vector<std::string>;

inline std::vector<Row> read_golden(const std::string& name) {
  const std::string packed = test::read_bytes(MSPROBE_TEST_DATA "/graph/merge/" + name + ".deflate");
  std::uint32_t size = 0;
  REQUIRE(packed.size() > sizeof(size));
  std::memcpy(&size, packed.data(), sizeof(size));
  std::string text(size, '\0');
  const std::unique_ptr<libdeflate_decompressor, void (*)(libdeflate_decompressor*)> unpack(
      libdeflate_alloc_decompressor(), libdeflate_free_decompressor);
  REQUIRE(libdeflate_deflate_decompress(unpack.get(), packed.data() + sizeof(size),
                                        packed.size() - sizeof(size), text.data(), text.size(),
                                        nullptr) == LIBDEFLATE_SUCCESS);
  std::vector<Row> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    rows.emplace_back();
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, '\t');) rows.back().push_back(cell);
  }
  return rows;
}

inline Graph graph_of(std::string dump, std::string construct, int rank, int step = 0) {
  const std::string folder = "rank" + std::to_string(rank);
  auto read = std::make_shared<Dump>();
  read->trace = trace::parse_trace(std::move(dump), folder + "/dump.json");
  read->construct = trace::parse_construct(std::move(construct), folder + "/construct.json");
  read->rank = rank;
  read->step = step;
  return build(std::move(read));
}

inline std::vector<Graph> ranks_of(const std::vector<Row>& golden) {
  std::vector<Graph> ranks;
  const std::string* dump = nullptr;
  for (const Row& row : golden) {
    if (row[0] == "D") dump = &row[1];
    if (row[0] == "S") ranks.push_back(graph_of(*dump, row[1], static_cast<int>(ranks.size())));
  }
  return ranks;
}

inline std::optional<Statistics> numbers_of(const Parameter& parameter) {
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

inline std::string name_of(const Graph& graph, NodeId node) {
  return node == kNoNode ? std::string() : std::string(graph[node].name);
}

inline std::vector<std::string> children_of(const Graph& graph, const std::string& name) {
  std::vector<std::string> names;
  const NodeId node = graph.find(name);
  REQUIRE(node != kNoNode);
  for (const NodeId child : graph[node].children) names.push_back(name_of(graph, child));
  return names;
}

inline Graph merge_one(std::vector<Graph> ranks, const ParallelLayout& layout) {
  auto merged = merge_ranks(std::move(ranks), layout);
  REQUIRE(merged.size() == 1);
  return std::move(merged.front());
}

}  // namespace msprobe::graph

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "graph/merge/merged_data.h"
#include "graph/merge_graphs.h"
#include "msprobe/error.h"
#include "msprobe/table.h"

/// Jobs made up for the tests of merging: matrices, what a rank records of its part, and the graphs of ranks.
namespace msprobe::graph {

// Elements of a tensor, rows of `width`.
struct Matrix {
  std::vector<double> values;
  std::size_t width = 1;

  // What of the rows (columns) from `begin` to `end` a rank has.
  Matrix rows(std::size_t begin, std::size_t end) const {
    return {{values.begin() + static_cast<std::ptrdiff_t>(begin * width),
             values.begin() + static_cast<std::ptrdiff_t>(end * width)},
            width};
  }
  Matrix columns(std::size_t begin, std::size_t end) const {
    Matrix result = {{}, end - begin};
    for (std::size_t row = 0; row < values.size() / width; ++row) {
      for (std::size_t i = begin; i < end; ++i) result.values.push_back(values[row * width + i]);
    }
    return result;
  }
};

inline Statistics summary_of(const Matrix& matrix) {
  Statistics result = {matrix.values.front(), matrix.values.front(), 0, 0};
  for (const double value : matrix.values) {
    result[0] = std::max(result[0], value);
    result[1] = std::min(result[1], value);
    result[2] += value / static_cast<double>(matrix.values.size());
    result[3] += value * value;
  }
  result[3] = std::sqrt(result[3]);
  return result;
}

inline Matrix random_matrix(std::mt19937& random, std::size_t height, std::size_t width) {
  Matrix matrix = {{}, width};
  std::normal_distribution<double> value(0.1, 1);
  for (std::size_t i = 0; i < height * width; ++i) matrix.values.push_back(value(random));
  return matrix;
}

inline std::string tensor(const Statistics& statistics, const std::string& shape = "[2]") {
  std::string json = R"({"type":"torch.Tensor","dtype":"torch.float32","shape":)" + shape;
  const char* const names[] = {"Max", "Min", "Mean", "Norm"};
  for (std::size_t i = 0; i < 4; ++i) {
    const std::string text = std::isnan(statistics[i]) ? "NaN" : io::format_double(statistics[i]);
    json += ",\"" + std::string(names[i]) + "\":" + text;
  }
  return json + "}";
}
inline std::string tensor(const Matrix& matrix) {
  return tensor(summary_of(matrix), "[" + std::to_string(matrix.values.size() / matrix.width) + "," +
                                        std::to_string(matrix.width) + "]");
}
// All four numbers are those of one element.
inline std::string number(double value) {
  return tensor(Statistics{value, value, value, std::abs(value)}, "[1]");
}

// What a rank records.
class Rank {
 public:
  // A call, forward or backward by its name, below the call of a module ("": none).
  Rank& call(const std::string& name, const std::string& parent, const std::string& in,
             const std::string& out, const std::string& parameters = "") {
    const bool forward = name.find("forward") != std::string::npos;
    const std::string owned = parameters.empty() ? "" : ",\"parameters\":{" + parameters + "}";
    record(name, std::string(R"({")") + (forward ? "input_args" : "input") + "\":[" + in + "],\"output\":[" +
                     out + "]" + owned + "}");
    return place(name, parent);
  }
  Rank& record(const std::string& name, const std::string& json) {
    data_ += (data_.empty() ? "\"" : ",\"") + name + "\":" + json;
    return *this;
  }
  Rank& place(const std::string& name, const std::string& parent) {
    construct_ += (construct_.empty() ? "\"" : ",\"") + name + "\":";
    construct_ += parent.empty() ? "null" : "\"" + parent + "\"";
    return *this;
  }
  Graph graph(int rank, int step = 0, const std::string& task = "statistics") const {
    return graph_of(R"({"task":")" + task +
                        R"(","level":"mix","framework":"pytorch","dump_data_dir":null,"data":{)" + data_ +
                        "}}",
                    "{" + construct_ + "}", rank, step);
  }

 private:
  std::string data_, construct_;
};

inline std::vector<Graph> graphs_of(const std::vector<Rank>& ranks) {
  std::vector<Graph> graphs;
  for (const Rank& rank : ranks) graphs.push_back(rank.graph(static_cast<int>(graphs.size())));
  return graphs;
}

inline NodeData data_of(const Graph& graph, const std::string& name) {
  NodeData data;
  const NodeId node = graph.find(name);
  REQUIRE(node != kNoNode);
  graph.read_data(node, data);
  return data;
}

inline void check_close(const Statistics& found, const Statistics& expected) {
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(std::abs(found[i] - expected[i]) <= 1e-12 * (1 + std::abs(expected[i])));
}

inline std::string refusal(const std::function<void()>& what) {
  try {
    what();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing was refused";
}

}  // namespace msprobe::graph

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "graph/made_up_ranks.h"
#include "graph/merge/groups.h"
#include "graph/merge/merged_data.h"
#include "graph/merge/rank_name.h"

namespace msprobe::graph {

namespace {

// A tensor with what a DTensor says of itself.
std::string placed(const Matrix& matrix, const std::string& placements, const std::string& mesh,
                   const std::string& sizes, const std::string& dims, const std::string& coordinate) {
  std::string json = tensor(matrix);
  json.pop_back();
  return json + R"(,"dtensor":{"shape":[8,4],"placements":[)" + placements + R"(],"mesh":")" + mesh +
         R"(","mesh_shape":)" + sizes + R"(,"mesh_dims":)" + dims + R"(,"coordinate":)" + coordinate + "}}";
}

constexpr const char* kFc = "Module.fc.Linear.forward.0";
constexpr const char* kBack = "Module.fc.Linear.backward.0";

// Data parallel by rows of the batch, tensor parallel by rows of the weight: 2 x 2.
std::vector<Rank> two_by_two(const Matrix& batch, const Matrix& weight, const Matrix& copy) {
  std::vector<Rank> ranks;
  for (std::size_t dp : {0, 1}) {
    for (std::size_t tp : {0, 1}) {
      const std::string at = "[" + std::to_string(dp) + "," + std::to_string(tp) + "]";
      const std::string of_tp = "[" + std::to_string(tp) + "]", mesh_of_tp = dp == 0 ? "aa" : "bb";
      const auto whole = [&](const Matrix& part, const std::string& placements) {
        return placed(part, placements, "ff", "[2,2]", R"(["dp","tp"])", at);
      };
      Rank rank;
      rank.call(kFc, "", tensor(batch.rows(4 * dp, 4 * dp + 4)),
                placed(batch.rows(4 * dp, 4 * dp + 4).columns(2 * tp, 2 * tp + 2), R"x("Shard(1)")x",
                       mesh_of_tp, "[2]", R"(["tp"])", of_tp),
                R"("weight":)" + whole(weight.rows(4 * tp, 4 * tp + 4), R"x("Replicate","Shard(0)")x") +
                    R"(,"scale":)" + whole(copy, R"("Replicate","Replicate")") + R"(,"sum":)" +
                    whole(batch.rows(2 * dp, 2 * dp + 1), R"x("Partial(sum)","Replicate")x"));
      rank.call(kBack, "", tensor(batch.rows(4 * dp, 4 * dp + 4)), tensor(copy));
      rank.record("Module.fc.Linear.parameters_grad",
                  R"({"weight":[)" + tensor(weight.rows(2 * dp + 4 * tp, 2 * dp + 4 * tp + 1)) + "]}");
      rank.place("Module.fc.Linear.parameters_grad", "");
      ranks.push_back(rank);
    }
  }
  return ranks;
}

}  // namespace

TEST_CASE("Ranks are joined by the placement of their tensors") {
  std::mt19937 random(8);
  const Matrix batch = random_matrix(random, 8, 4), weight = random_matrix(random, 8, 4),
               copy = random_matrix(random, 1, 4);
  std::vector<Graph> graphs = graphs_of(two_by_two(batch, weight, copy));
  const auto layout = layout_of(graphs);
  REQUIRE(layout);
  CHECK(layout->by_placements);
  const Graph merged = merge_one(std::move(graphs), *layout);
  const NodeData data = data_of(merged, kFc);
  const auto named = [&](const std::string& name) -> const Parameter& {
    for (const Parameter& parameter : data.inputs) {
      if (parameter.trace->text(parameter.item->path) == name) return parameter;
    }
    FAIL("no " << name);
    return data.inputs.front();
  };
  check_close(*numbers_of(named("0")), summary_of(batch));  // parts along dp, copies along tp: not twice
  check_close(*numbers_of(named("weight")), summary_of(weight));
  check_close(*numbers_of(named("scale")), summary_of(copy));
  CHECK_FALSE(named("scale").merged);
  check_close(*numbers_of(data.outputs[0]), summary_of(batch));  // of a mesh that is a part of the other
  check_close(*numbers_of(named("sum")), summary_of(batch.rows(0, 1)));
  const auto notes_with = [](const NodeData& of, const std::string& text) {
    return std::count_if(of.notes.begin(), of.notes.end(),
                         [&](const std::string& note) { return note.find(text) != std::string::npos; });
  };
  CHECK(notes_with(data, "summands of parameters.sum along \"dp\"") == 1);
  CHECK(notes_with(data, "device mesh(dp=2, tp=2)") == 1);
  CHECK(notes_with(data, "should hold the same") == 0);
  check_close(*numbers_of(data_of(merged, kBack).inputs[0]), summary_of(batch));
  CHECK(data_of(merged, kBack).notes.size() == 5);  // one for each statistic of what differs
}

TEST_CASE("Copies that differ are named, and the first is shown") {
  std::mt19937 random(9);
  std::vector<Rank> ranks;
  std::vector<Matrix> weights;
  for (const char* const at : {"[0]", "[1]"}) {
    weights.push_back(random_matrix(random, 2, 4));
    ranks.emplace_back().call(
        kFc, "", number(1), number(2),
        R"("weight":)" + placed(weights.back(), R"("Replicate")", "aa", "[2]", "[]", at));
  }
  std::vector<Graph> graphs = graphs_of(ranks);
  const Graph merged = merge_one(std::move(graphs), {.rank_size = 2, .by_placements = true});
  const NodeData data = data_of(merged, kFc);
  check_close(*numbers_of(data.inputs.back()), summary_of(weights[0]));
  REQUIRE(data.notes.size() == 1);
  CHECK(data.notes[0].find("The ranks [0, 1] should hold the same parameters.weight along \"[2] 0\"") == 0);
}

TEST_CASE("A placement that is not known is named, and the first is shown") {
  std::mt19937 random(11);
  for (const std::string placement : {"RaggedShard((0,))", "ShardOfNobody(0)", "Flat"}) {
    std::vector<Rank> ranks;
    std::vector<Matrix> weights;
    for (const char* const at : {"[0]", "[1]"}) {
      weights.push_back(random_matrix(random, 2, 4));
      ranks.emplace_back().call(
          kFc, "", number(1), number(2),
          R"("weight":)" + placed(weights.back(), '"' + placement + '"', "aa", "[2]", R"(["dp"])", at));
    }
    const Graph merged = merge_one(graphs_of(ranks), {.rank_size = 2, .by_placements = true});
    const NodeData data = data_of(merged, kFc);
    check_close(*numbers_of(data.inputs.back()), summary_of(weights[0]));
    REQUIRE(data.notes.size() == 1);
    CHECK(data.notes[0].find("The placement " + placement + " of parameters.weight along \"dp\"") == 0);
  }
}

TEST_CASE("Ranks on different meshes are copies of the model, and impossible meshes are refused") {
  std::mt19937 random(10);
  const Matrix weight = random_matrix(random, 8, 4);
  const auto rank_of = [&](const std::string& mesh, const std::string& size, const std::string& at) {
    Rank rank;
    return rank.call(kFc, "", number(1), number(2),
                     R"("weight":)" + placed(weight, R"x("Shard(0)")x", mesh, size, R"(["tp"])", at));
  };
  const auto pairs = merge_ranks(graphs_of({rank_of("aa", "[2]", "[1]"), rank_of("aa", "[2]", "[0]"),
                                            rank_of("bb", "[2]", "[0]"), Rank()}),
                                 {.rank_size = 4, .by_placements = true});
  REQUIRE(pairs.size() == 3);
  CHECK(pairs[0].rank() == 1);  // the first of its mesh
  const ParallelLayout two = {.rank_size = 2, .by_placements = true};
  const auto refused = [&](const std::string& size, const std::string& at, const std::string& other) {
    return refusal(
        [&] { merge_ranks(graphs_of({rank_of("aa", size, at), rank_of("aa", "[2]", other)}), two); });
  };
  CHECK(refused("[2]", "[0]", "[0]").find("cannot merge ranks [0, 1]") == 0);  // both at one place
  CHECK(refused("[3]", "[0]", "[1]").find("\"tp\"") != std::string::npos);
  CHECK(refused("[2]", "[7]", "[1]").find("\"tp\"") != std::string::npos);
  // What no tool wrote is no placement.
  CHECK(merge_ranks(graphs_of({rank_of("aa", "[]", "[0]"), rank_of("aa", "[2,2]", "[1]")}), two).size() == 2);
}

}  // namespace msprobe::graph

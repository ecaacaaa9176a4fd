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

TEST_CASE("Layouts whose sizes do not fit are refused by the name of the key") {
  const auto check = [](const ParallelLayout& layout, const std::string& key) {
    const std::string message = refusal([&] { check_layout(layout, "compare.json: \"npu\""); });
    INFO(message);
    CHECK(message.find("compare.json: \"npu\": \"" + key + "\": found ") == 0);
    CHECK(message.find("expected") != std::string::npos);
  };
  check({.rank_size = 0}, "rank_size");
  check({.rank_size = 4, .tp = -2}, "tp");
  check({.rank_size = 4, .tp = 3}, "tp");
  check({.rank_size = 4, .pp = 8}, "pp");
  check({.rank_size = 12, .tp = 4, .pp = 6}, "rank_size");
  check({.rank_size = 36, .tp = 12, .pp = 9}, "rank_size");
  check({.rank_size = 12, .tp = 4, .pp = 2}, "rank_size");
  check({.rank_size = 8, .tp = 65536, .pp = 65536, .cp = 65536}, "tp");
  check({.rank_size = 4, .vpp = 2}, "vpp");
  check({.rank_size = 4, .pp = 2, .vpp = 0}, "vpp");
  check({.rank_size = 4, .tp = 2, .cp = 4}, "rank_size");
  check({.rank_size = 8, .tp = 4, .ep = 4}, "ep");
  check({.rank_size = 2, .order = ""}, "order");
  check({.rank_size = 2, .order = "tp-xp"}, "order");
  check({.rank_size = 2, .order = "TP-PP-DP"}, "order");
  check({.rank_size = 2, .order = "tp-dp-tp"}, "order");
  check({.rank_size = 4, .tp = 2, .pp = 2, .order = "tp-dp"}, "order");
  check({.rank_size = 4, .order = "tp-ep-pp-dp"}, "order");
  CHECK_NOTHROW(check_layout({.rank_size = 16, .tp = 2, .pp = 2, .vpp = 3, .cp = 2, .ep = 2}, ""));
  CHECK_NOTHROW(check_layout({.rank_size = 4, .tp = 2, .pp = 2, .order = "pp-tp"}, ""));
}

TEST_CASE("Ranks that make no job are refused") {
  const auto refused = [](std::vector<Graph> ranks, const ParallelLayout& layout) {
    return refusal([&] { merge_ranks(std::move(ranks), layout); });
  };
  const Rank rank;
  const auto two = [&rank](int second, int step, const std::string& task) {
    std::vector<Graph> ranks;
    ranks.push_back(rank.graph(0));
    ranks.push_back(rank.graph(second, step, task));
    return ranks;
  };
  const ParallelLayout layout = {.rank_size = 2, .tp = 2};
  CHECK(refused({}, layout).find("found 0, expected as many as \"rank_size\", 2") != std::string::npos);
  CHECK(refused(two(2, 0, "statistics"), layout).find("found rank 2 as number 1") != std::string::npos);
  CHECK(refused(two(1, 3, "statistics"), layout).find("step 3") != std::string::npos);
  CHECK(refused(two(1, 0, "tensor"), layout).find("rank1/dump.json: found task \"tensor\"") !=
        std::string::npos);
  std::vector<Graph> with_md5 = two(1, 0, "statistics");
  with_md5[0] = Rank()
                    .record("Torch.add.0.forward",
                            R"({"input_args":[{"type":"torch.Tensor","dtype":"torch.float32","shape":[1],)"
                            R"("Max":1.0,"Min":1.0,"Mean":1.0,"Norm":1.0,"md5":"00000000"}],"output":[]})")
                    .graph(0);
  CHECK(refused(std::move(with_md5), layout).find("rank0/dump.json: found md5 sums") != std::string::npos);
}

TEST_CASE("Ranks that recorded nothing give graphs of nothing") {
  for (const ParallelLayout& layout :
       {ParallelLayout{.rank_size = 4, .tp = 2, .pp = 2}, ParallelLayout{.rank_size = 4, .cp = 2, .ep = 2},
        ParallelLayout{.rank_size = 4, .pp = 4, .vpp = 3}, ParallelLayout{.rank_size = 4}}) {
    const auto merged = merge_ranks(graphs_of(std::vector<Rank>(4)), layout);
    CHECK(merged.size() == static_cast<std::size_t>(4 / (layout.tp * layout.pp * layout.cp)));
    for (const Graph& graph : merged) CHECK(graph.post_order().size() == 1);
  }
}

TEST_CASE("Ranks of different models keep what the first one recorded") {
  const std::string block = "Module.decoder.Block.forward.0";
  const auto model = [&](const std::string& layer, double value) {
    return Rank()
        .place(block, "")
        .call("Module.decoder." + layer + ".Linear.forward.0", block, number(value), number(value))
        .record(block, R"({"input_args":[],"output":[]})");
  };
  for (const ParallelLayout& layout :
       {ParallelLayout{.rank_size = 2, .tp = 2}, ParallelLayout{.rank_size = 2, .cp = 2}}) {
    const Graph merged = merge_one(graphs_of({model("fc", 1), model("other", 2)}), layout);
    CHECK(children_of(merged, block) == std::vector<std::string>{"Module.decoder.fc.Linear.forward.0"});
    CHECK(data_of(merged, "Module.decoder.fc.Linear.forward.0").notes.empty());
  }
  // A stage that has another module is what pipelines are about.
  const Graph merged = merge_one(graphs_of({model("fc", 1), model("other", 2)}), {.rank_size = 2, .pp = 2});
  CHECK(children_of(merged, block) == std::vector<std::string>{"Module.decoder.fc.Linear.forward.0",
                                                               "Module.decoder.other.Linear.forward.0"});
}

TEST_CASE("Ranks are grouped as they are numbered") {
  const ParallelLayout layout = {.rank_size = 8, .tp = 2, .pp = 2};
  CHECK(numbered_groups(layout, "tp") == std::vector<Group>{{0, 1}, {2, 3}, {4, 5}, {6, 7}});
  CHECK(numbered_groups(layout, "pp") == std::vector<Group>{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  CHECK(numbered_groups({.rank_size = 8, .tp = 2, .pp = 2, .order = "tp-cp-ep-pp-dp"}, "pp") ==
        std::vector<Group>{{0, 2}, {1, 3}, {4, 6}, {5, 7}});
  CHECK(numbered_groups({.rank_size = 8, .tp = 2, .cp = 2, .ep = 2}, "cp") ==
        std::vector<Group>{{0, 2}, {1, 3}, {4, 6}, {5, 7}});
  CHECK(numbered_groups({.rank_size = 8, .tp = 2, .ep = 2}, "ep") ==
        std::vector<Group>{{0, 2}, {1, 3}, {4, 6}, {5, 7}});
  CHECK(numbered_groups({.rank_size = 4, .pp = 2, .order = "pp-dp"}, "tp") ==
        std::vector<Group>{{0}, {1}, {2}, {3}});
  const std::vector<Group> groups = {{0, 3, 5}, {4, 1, 2}};
  const Places places(groups);
  CHECK(places.behind(3, 1) == 5);
  CHECK(places.behind(2, 2) == 1);
  CHECK(places.behind(99, 1) == 99);
  CHECK(places.first(2) == 4);
  // Copies of the model stay apart.
  const auto merged = merge_ranks(graphs_of(std::vector<Rank>(8)), layout);
  REQUIRE(merged.size() == 2);
  CHECK(merged[0].rank() == 0);
  CHECK(merged[1].rank() == 2);
}

TEST_CASE("Ranks are grouped as they communicate") {
  // Tensor parallelism over 0, 2 and 1, 3; two copies of the model.
  std::vector<Rank> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    const std::string group = rank % 2 == 0 ? "[0,2]" : "[1,3]";
    ranks.push_back(Rank()
                        .record("Distributed.all_reduce.0.forward",
                                R"({"input_args":[],"input_kwargs":{"group":{"type":"torch.ProcessGroup",)"
                                R"("group_ranks":)" +
                                    group + R"(,"group_id":"0"}},"output":[]})")
                        .place("Distributed.all_reduce.0.forward", "Module.fc.RowParallelLinear.forward.0")
                        .call("Module.fc.RowParallelLinear.forward.0", "", number(rank), number(1)));
  }
  const auto merged = merge_ranks(graphs_of(ranks), {.rank_size = 4, .tp = 2});
  REQUIRE(merged.size() == 2);
  CHECK(data_of(merged[0], "Module.fc.RowParallelLinear.forward.0").inputs[0].merged ==
        Statistics{2, 0, 1, 2});
  CHECK(
      data_of(merged[1], "Module.fc.RowParallelLinear.forward.0").notes[0] ==
      "This data is the merged data after tensor parallelism(TP), and the data is merged from rank [1, 3].");
  const auto found = layout_of(graphs_of(ranks));
  REQUIRE(found);
  CHECK(found->tp == 2);
  CHECK(found->pp == 1);
}

TEST_CASE("The layout is found where the ranks tell it") {
  struct Case {
    std::string name;
    ParallelLayout layout;
  };
  for (const Case& one :
       {Case{"one", {}}, Case{"tp2", {.rank_size = 2, .tp = 2}}, Case{"pp2", {.rank_size = 2, .pp = 2}},
        Case{"vpp2", {.rank_size = 2, .pp = 2, .vpp = 2}},
        Case{"tppp", {.rank_size = 4, .tp = 2, .pp = 2}}}) {
    INFO(one.name);
    const auto found = layout_of(ranks_of(read_golden(one.name)));
    REQUIRE(found);
    CHECK(found->rank_size == one.layout.rank_size);
    CHECK(found->tp == one.layout.tp);
    CHECK(found->pp == one.layout.pp);
    CHECK(found->vpp == one.layout.vpp);
  }
  CHECK_FALSE(layout_of({}));
  auto incomplete = ranks_of(read_golden("tppp"));
  incomplete.pop_back();
  CHECK_FALSE(layout_of(incomplete));
}

TEST_CASE("Statistics of parts become those of the tensor") {
  std::mt19937 random(5);
  for (const int parts : {2, 3, 4, 8}) {
    for (const bool by_rows : {true, false}) {
      for (const bool uneven : {false, true}) {
        const std::size_t size = static_cast<std::size_t>(parts) * 3 + (uneven ? 1 : 0);
        const Matrix whole = by_rows ? random_matrix(random, size, 5) : random_matrix(random, 5, size);
        std::vector<Rank> ranks;
        for (std::size_t part = 0; part < static_cast<std::size_t>(parts); ++part) {
          const std::size_t begin = part * 3;
          const std::size_t end = part + 1 == static_cast<std::size_t>(parts) ? size : begin + 3;
          const std::string cut = tensor(by_rows ? whole.rows(begin, end) : whole.columns(begin, end));
          ranks.push_back(Rank().call("Module.fc.Linear.forward.0", "", cut, number(7)));
        }
        for (const bool context : {false, true}) {
          const ParallelLayout layout = {
              .rank_size = parts, .tp = context ? 1 : parts, .cp = context ? parts : 1};
          const NodeData data = data_of(merge_one(graphs_of(ranks), layout), "Module.fc.Linear.forward.0");
          REQUIRE(data.inputs[0].merged);
          check_close(*data.inputs[0].merged, summary_of(whole));
          CHECK_FALSE(data.outputs[0].merged);
          REQUIRE(data.notes.size() == 5);
          CHECK((data.notes[3].find(" * ") != std::string::npos) == uneven);
        }
      }
    }
  }
}

TEST_CASE("What is no number on some rank") {
  const double nan = std::nan("");
  const auto merged_input = [](const std::string& left, const std::string& right) {
    return data_of(merge_one(graphs_of({Rank().call("Module.fc.Linear.forward.0", "", left, number(1)),
                                        Rank().call("Module.fc.Linear.forward.0", "", right, number(1))}),
                             {.rank_size = 2, .tp = 2}),
                   "Module.fc.Linear.forward.0");
  };
  SECTION("NaN on any rank is NaN") {
    for (const bool first : {true, false}) {
      const std::string bad = tensor({nan, nan, nan, nan}), good = tensor({1, 0, 0.5, 1});
      const NodeData data = merged_input(first ? bad : good, first ? good : bad);
      REQUIRE(data.inputs[0].merged);
      for (const double value : *data.inputs[0].merged) CHECK(std::isnan(value));
      CHECK(data.notes[1] == (first ? "The Max value merging method for input.0 is: max(nan, 1.0) = nan"
                                    : "The Max value merging method for input.0 is: max(1.0, nan) = nan"));
    }
  }
  SECTION("null stays what it is") {
    const std::string null =
        R"({"type":"torch.Tensor","dtype":"torch.bool","shape":[2],"Max":true,"Min":false,)"
        R"("Mean":null,"Norm":null})";
    CHECK(merged_input(null, number(1)).notes.empty());
    CHECK(merged_input("null", number(1)).notes.empty());
    CHECK(merged_input(number(1), "null").notes.empty());
    CHECK(merged_input(number(1), "").notes.empty());
  }
  SECTION("empty parts add nothing") {
    const std::string empty =
        R"({"type":"torch.Tensor","dtype":"torch.float32","shape":[0, 2],"Max":null,"Min":null,)"
        R"("Mean":null,"Norm":null})";
    for (const bool first : {true, false}) {
      const NodeData data = merged_input(first ? empty : number(3), first ? number(3) : empty);
      CHECK(data.inputs[0].merged == Statistics{3, 3, 3, 3});
      REQUIRE(data.notes.size() == 5);
      CHECK(data.notes[1] == "The Max value merging method for input.0 is: max(3.0) = 3.0");
    }
    CHECK(merged_input(empty, empty).notes.empty());
  }
  SECTION("integers are shown as such") {
    const std::string three =
        R"({"type":"torch.Tensor","dtype":"torch.int64","shape":[],"Max":3,"Min":3,"Mean":3,"Norm":3})";
    CHECK(merged_input(three, number(4)).notes[1] ==
          "The Max value merging method for input.0 is: max(3, 4.0) = 4.0");
  }
}

TEST_CASE("Parts of a sequence") {
  std::mt19937 random(6);
  const Matrix input = random_matrix(random, 8, 3), output = random_matrix(random, 8, 2);
  const Matrix weight = random_matrix(random, 3, 2);
  std::vector<Rank> ranks;
  for (std::size_t part = 0; part < 2; ++part) {
    const std::string in = tensor(input.rows(part * 4, part * 4 + 4)),
                      out = tensor(output.rows(part * 4, part * 4 + 4));
    const std::string gradient = number(0.5 + static_cast<double>(part));
    ranks.push_back(
        Rank()
            .call("Module.fc.Linear.forward.0", "", in, out, "\"weight\":" + tensor(weight))
            .call("Torch.matmul.0.forward", "Module.fc.Linear.forward.0", in + "," + tensor(weight), out)
            .call("Module.fc.Linear.backward.0", "", out, in)
            .call("Torch.matmul.0.backward", "Module.fc.Linear.backward.0", out, in + "," + gradient)
            .record("Module.fc.Linear.parameters_grad", "{\"weight\":[" + gradient + "]}"));
  }
  const Graph merged = merge_one(graphs_of(ranks), {.rank_size = 2, .cp = 2});
  for (const char* const name : {"Module.fc.Linear.forward.0", "Torch.matmul.0.forward"}) {
    const NodeData data = data_of(merged, name);
    check_close(*data.inputs.at(0).merged, summary_of(input));
    CHECK_FALSE(data.inputs.at(1).merged);  // the weight
    check_close(*data.outputs.at(0).merged, summary_of(output));
    CHECK(data.notes.at(0) ==
          "This data is the merged data after context parallelism(CP), and the data is merged from rank [0, "
          "1].");
  }
  const NodeData backward = data_of(merged, "Torch.matmul.0.backward");
  check_close(*backward.inputs.at(0).merged, summary_of(output));
  check_close(*backward.outputs.at(0).merged, summary_of(input));
  CHECK_FALSE(backward.outputs.at(1).merged);
  CHECK(backward.notes.back() ==
        "The ranks [0, 1] hold different summands of output.1, whose statistics cannot be merged; those of "
        "the first "
        "are shown.");
  const NodeData gradients = data_of(merged, "Module.fc.Linear.parameters_grad");
  CHECK_FALSE(gradients.inputs.at(0).merged);
  REQUIRE(gradients.notes.size() == 1);
  CHECK(gradients.notes[0].find("summands of weight,") != std::string::npos);
}

TEST_CASE("A part of a sequence that is 0") {
  // Then the whole has the statistics of the other part; the gradient of it is still no sum.
  const std::string zero = tensor(Matrix{{0, 0}, 1}), other = tensor(Matrix{{1, -1}, 1});
  std::vector<Rank> ranks;
  for (const std::string& part : {zero, other}) {
    ranks.push_back(Rank()
                        .call("Module.fc.Linear.forward.0", "", part, number(1))
                        .call("Module.fc.Linear.backward.0", "", number(1), part));
  }
  const Graph merged = merge_one(graphs_of(ranks), {.rank_size = 2, .cp = 2});
  CHECK(data_of(merged, "Module.fc.Linear.forward.0").inputs[0].merged);
  CHECK(data_of(merged, "Module.fc.Linear.backward.0").outputs[0].merged);
}

TEST_CASE("Equal tensors between a layer split by columns and one split by rows are parts") {
  const std::string columns = "Module.mlp.fc1.TEColumnParallelLinear.forward.0";
  const std::string rows = "Module.mlp.fc2.RowParallelLinear.forward.0";
  const std::string weight = "\"weight\":" + number(3), both = weight + ",\"bias\":" + number(3);
  Rank rank;
  rank.call("Module.mlp.MLP.forward.0", "", number(3), number(3));
  rank.call(columns, "Module.mlp.MLP.forward.0", number(3), number(3), both);
  rank.call("Torch.matmul.0.forward", columns, number(3) + "," + number(3), number(3));
  rank.call("Tensor.view.0.forward", columns, number(3), number(3));
  rank.call("Module.mlp.act.Gelu.forward.0", "Module.mlp.MLP.forward.0", number(3), number(3));
  rank.call("Functional.gelu.0.forward", "Module.mlp.act.Gelu.forward.0", number(3), number(3));
  rank.call(rows, "Module.mlp.MLP.forward.0", number(3), number(3), both);
  rank.call("Torch.matmul.1.forward", rows, number(3) + "," + number(3), number(3));
  rank.call("Torch.add.0.forward", "Module.mlp.MLP.forward.0", number(3), number(3));
  const Graph merged = merge_one(graphs_of({rank, rank}), {.rank_size = 2, .tp = 2});
  const auto merged_places = [&merged](const std::string& name) {
    const NodeData data = data_of(merged, name);
    std::string places;
    for (const Parameter& parameter : data.inputs) places += parameter.merged ? '+' : '-';
    places += '>';
    for (const Parameter& parameter : data.outputs) places += parameter.merged ? '+' : '-';
    return places;
  };
  CHECK(merged_places("Module.mlp.MLP.forward.0") == "->-");
  CHECK(merged_places(columns) == "-++>+");
  CHECK(merged_places("Torch.matmul.0.forward") == "-+>+");
  CHECK(merged_places("Tensor.view.0.forward") == "->-");
  CHECK(merged_places("Module.mlp.act.Gelu.forward.0") == "+>+");
  CHECK(merged_places("Functional.gelu.0.forward") == "+>+");
  CHECK(merged_places(rows) == "++->-");
  CHECK(merged_places("Torch.matmul.1.forward") == "++>-");
  CHECK(merged_places("Torch.add.0.forward") == "->-");
  CHECK(data_of(merged, columns).outputs[0].merged == Statistics{3, 3, 3, std::sqrt(18.0)});
}

TEST_CASE("Summands get their sum, also where each rank keeps a part of it") {
  const std::string rows = "Module.mlp.fc2.RowParallelLinear.forward.0";
  for (const bool scatters : {false, true}) {
    const std::string reduction =
        scatters ? "Distributed.reduce_scatter_tensor.0.forward" : "Distributed.all_reduce.0.forward";
    std::vector<Rank> ranks;
    for (const double rank : {0.0, 1.0}) {
      const std::string summand = number(5 + rank), sum = number(scatters ? 20 + rank : 11);
      ranks.push_back(Rank()
                          .call(rows, "", number(rank), sum)
                          .call("Torch.matmul.0.forward", rows, number(rank), summand)
                          .call(reduction, rows, scatters ? number(0) + "," + summand : summand, sum));
    }
    const NodeData data =
        data_of(merge_one(graphs_of(ranks), {.rank_size = 2, .tp = 2}), "Torch.matmul.0.forward");
    CHECK(data.inputs[0].merged == Statistics{1, 0, 0.5, 1});
    REQUIRE(data.notes.size() == (scatters ? 10 : 6));
    CHECK(data.notes[5] == "The output of this data is merged from " + reduction + ".output.0");
    const Statistics whole = {21, 20, 20.5, std::sqrt(20.0 * 20 + 21 * 21)};
    CHECK(data.outputs[0].merged == (scatters ? whole : Statistics{11, 11, 11, 11}));
  }
}

TEST_CASE("Calls of one name in different modules are not merged") {
  const auto rank = [](const std::string& parent, double value) {
    return Rank()
        .call("Module.a.Linear.forward.0", "", number(1), number(1))
        .call("Module.b.Linear.forward.0", "", number(1), number(1))
        .call("Torch.matmul.0.forward", parent, number(value), number(value));
  };
  const auto merge = [&](const std::string& other_parent) {
    return merge_one(graphs_of({rank("Module.a.Linear.forward.0", 1), rank(other_parent, 2)}),
                     {.rank_size = 2, .tp = 2});
  };
  CHECK(data_of(merge("Module.a.Linear.forward.0"), "Torch.matmul.0.forward").inputs[0].merged);
  CHECK_FALSE(data_of(merge("Module.b.Linear.forward.0"), "Torch.matmul.0.forward").inputs[0].merged);
}

TEST_CASE("Experts of all ranks") {
  const std::string list = "Module.mlp.experts.local_experts.";
  const std::string forward = "Module.mlp.experts.SequentialMLP.forward.0";
  const std::string backward = "Module.mlp.experts.SequentialMLP.backward.0";
  const auto expert = [&list](int number, const std::string& direction) {
    return list + std::to_string(number) + ".MLP." + direction + ".0";
  };
  std::vector<Rank> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    Rank made;
    made.call(forward, "", number(rank), number(rank));
    made.call("Module.mlp.router.Router.forward.0", "", number(10 + rank), number(10 + rank));
    for (int i = 0; i < 2; ++i) {
      made.call(expert(i, "forward"), forward, number(rank * 2 + i), number(1));
      made.call("Torch.gelu." + std::to_string(i) + ".forward", expert(i, "forward"), number(1), number(1));
    }
    made.call(backward, "", number(rank), number(rank));
    for (int i = 1; i >= 0; --i) made.call(expert(i, "backward"), backward, number(rank * 2 + i), number(1));
    ranks.push_back(made);
  }
  const auto merged = merge_ranks(graphs_of(ranks), {.rank_size = 2, .ep = 2});
  REQUIRE(merged.size() == 2);
  for (int rank = 0; rank < 2; ++rank) {
    INFO(rank);
    const Graph& graph = merged[static_cast<std::size_t>(rank)];
    std::vector<std::string> up, down;
    for (int i = 0; i < 4; ++i) {
      up.push_back(expert(i, "forward"));
      down.insert(down.begin(), expert(i, "backward"));
      CHECK(numbers_of(data_of(graph, expert(i, "forward")).inputs[0])->at(0) == i);
    }
    CHECK(children_of(graph, forward) == up);
    CHECK(children_of(graph, backward) == down);
    const std::string own = rank == 0 ? "Torch.gelu.0.forward" : "Torch.gelu_rank0.0.forward";
    CHECK(children_of(graph, expert(0, "forward")) == std::vector<std::string>{own});
    // What all experts of a rank go through is joined; what each rank does with its own data is not.
    CHECK(data_of(graph, forward).inputs[0].merged == Statistics{1, 0, 0.5, 1});
    CHECK(data_of(graph, forward).notes[0].find("expert parallelism(EP)") != std::string::npos);
    CHECK_FALSE(data_of(graph, "Module.mlp.router.Router.forward.0").inputs[0].merged);
    CHECK(numbers_of(data_of(graph, "Module.mlp.router.Router.forward.0").inputs[0])->at(0) == 10 + rank);
  }
}

TEST_CASE("Whatever ranks recorded becomes trees with names of their own") {
  const std::vector<std::string> names = {"Module.0.decoder.Block",
                                          "Module.1.decoder.Block",
                                          "Module.0.decoder.layers.0.Layer",
                                          "Module.0.decoder.layers.1.Layer",
                                          "Module.1.decoder.layers.0.Layer",
                                          "Module.0.decoder.layers.2.layers.1.Layer",
                                          "Module.0_rank1.decoder.layers.0.Layer",
                                          "Module.layers.1.Layer",
                                          "Module.0.x.experts.SequentialMLP",
                                          "Module.0.x.experts.local_experts.0.MLP",
                                          "Module.0.x.experts.local_experts.1.MLP",
                                          "Module.0.x.experts.local_experts.1.fc.ColumnParallelLinear",
                                          "Module.0.a.ColumnParallelLinear",
                                          "Module.0.a.RowParallelLinear",
                                          "Torch.matmul",
                                          "Torch.matmul_rank1",
                                          "Torch.matmul_rank7",
                                          "Tensor.a",
                                          "Distributed.all_reduce",
                                          "Apis_Between_Modules",
                                          "optimizer",
                                          "clip_grad",
                                          "x"};
  std::mt19937 random(9);
  const auto below = [&random](std::size_t limit) { return random() % limit; };
  const std::vector<ParallelLayout> layouts = {{.rank_size = 4, .tp = 2, .pp = 2},
                                               {.rank_size = 4, .pp = 4, .vpp = 2},
                                               {.rank_size = 4, .pp = 2, .vpp = 2, .ep = 2},
                                               {.rank_size = 4, .tp = 4},
                                               {.rank_size = 4, .cp = 2, .ep = 2},
                                               {.rank_size = 4, .tp = 2, .cp = 2},
                                               {.rank_size = 4, .ep = 4}};
  int merged = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<Rank> ranks;
    for (int rank = 0; rank < 4; ++rank) {
      Rank made;
      std::vector<std::string> placed = {""};
      std::set<std::string> known;
      for (int i = 0; i < 25; ++i) {
        const std::string name = names[below(names.size())] + (below(2) == 0 ? ".forward." : ".backward.") +
                                 std::to_string(below(3));
        if (!known.insert(name).second) continue;
        made.call(name, placed[below(placed.size())], number(static_cast<double>(below(3))),
                  number(static_cast<double>(below(3))));
        placed.push_back(name);
      }
      ranks.push_back(made);
    }
    const ParallelLayout& layout = layouts[static_cast<std::size_t>(round) % layouts.size()];
    INFO(round);
    std::vector<Graph> graphs;
    try {
      graphs = graphs_of(ranks);
    } catch (const FormatError&) {  // parents in a circle
      continue;
    }
    ++merged;
    for (const Graph& graph : merge_ranks(std::move(graphs), layout)) {
      std::set<NodeId> seen;
      std::set<std::string_view> own_names;
      for (const NodeId node : graph.post_order()) {
        REQUIRE(seen.insert(node).second);
        REQUIRE(own_names.insert(graph[node].name).second);
        REQUIRE(graph.find(graph[node].name) == node);
        for (const NodeId child : graph[node].children) REQUIRE(graph[child].parent == node);
        NodeData data;
        graph.read_data(node, data);
        for (const Parameter& parameter : data.inputs) REQUIRE(label_of(graph, node, parameter) != "");
      }
    }
  }
  CHECK(merged > 200);
}

TEST_CASE("Names with ranks") {
  const auto plus_ten = [](int rank) { return rank + 10; };
  CHECK(with_rank("Torch.matmul.2.forward", 3) == "Torch.matmul_rank3.2.forward");
  CHECK(with_rank("Torch.matmul_rank1.2.forward", 3) == "Torch.matmul_rank1.2.forward");
  CHECK(with_rank("Torch.get_rank.2.forward", 3) == "Torch.get_rank_rank3.2.forward");
  CHECK(with_rank("a", 3) == "a_rank3");
  CHECK(with_other_rank("Torch.matmul_rank1.2.forward", plus_ten) == "Torch.matmul_rank11.2.forward");
  CHECK(with_other_rank("Torch.matmul.2.forward", plus_ten) == "Torch.matmul.2.forward");
  CHECK(with_other_rank("Torch.x_rank99999999999.2.forward", plus_ten) ==
        "Torch.x_rank99999999999.2.forward");
}

}  // namespace msprobe::graph

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <set>

#include "graph/merge/groups.h"
#include "graph/merge/merged_data.h"
#include "graph/merge/rank_name.h"
#include "graph/merge_graphs.h"
#include "msprobe/error.h"
#include "msprobe/table.h"

namespace msprobe::graph {
namespace {

// ---- Jobs made up

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

Statistics summary_of(const Matrix& matrix) {
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

Matrix random_matrix(std::mt19937& random, std::size_t height, std::size_t width) {
  Matrix matrix = {{}, width};
  std::normal_distribution<double> value(0.1, 1);
  for (std::size_t i = 0; i < height * width; ++i) matrix.values.push_back(value(random));
  return matrix;
}

std::string tensor(const Statistics& statistics, const std::string& shape = "[2]") {
  std::string json = R"({"type":"torch.Tensor","dtype":"torch.float32","shape":)" + shape;
  const char* const names[] = {"Max", "Min", "Mean", "Norm"};
  for (std::size_t i = 0; i < 4; ++i) {
    const std::string text = std::isnan(statistics[i]) ? "NaN" : io::format_double(statistics[i]);
    json += ",\"" + std::string(names[i]) + "\":" + text;
  }
  return json + "}";
}
std::string tensor(const Matrix& matrix) {
  return tensor(summary_of(matrix), "[" + std::to_string(matrix.values.size() / matrix.width) + "," +
                                        std::to_string(matrix.width) + "]");
}
// All four numbers are those of one element.
std::string number(double value) { return tensor(Statistics{value, value, value, std::abs(value)}, "[1]"); }

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

std::vector<Graph> graphs_of(const std::vector<Rank>& ranks) {
  std::vector<Graph> graphs;
  for (const Rank& rank : ranks) graphs.push_back(rank.graph(static_cast<int>(graphs.size())));
  return graphs;
}

NodeData data_of(const Graph& graph, const std::string& name) {
  NodeData data;
  const NodeId node = graph.find(name);
  REQUIRE(node != kNoNode);
  graph.read_data(node, data);
  return data;
}

void check_close(const Statistics& found, const Statistics& expected) {
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(std::abs(found[i] - expected[i]) <= 1e-12 * (1 + std::abs(expected[i])));
}

std::string refusal(const std::function<void()>& what) {
  try {
    what();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing was refused";
}

}  // namespace

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

TEST_CASE("Stages of different depth") {
  const auto layer = [](int number, const std::string& direction) {
    return "Module.decoder.layers." + std::to_string(number) + ".Layer." + direction + ".0";
  };
  // Two, three and one of six layers; the second and third stage both have a norm of their own.
  const std::vector<int> depths = {2, 3, 1};
  std::vector<Rank> ranks;
  double value = 1;
  for (std::size_t stage = 0; stage < depths.size(); ++stage) {
    Rank rank;
    const std::string block = "Module.decoder.Block.forward.0", back = "Module.decoder.Block.backward.0";
    rank.call(block, "", number(value), number(value + depths[stage]));
    for (int i = 0; i < depths[stage]; ++i) {
      rank.call(layer(i, "forward"), block, number(value), number(value + 1));
      rank.call("Torch.add." + std::to_string(i) + ".forward", layer(i, "forward"), number(value),
                number(value + 1));
      ++value;
    }
    if (stage > 0) rank.call("Module.decoder.norm.Norm.forward.0", block, number(value), number(-value));
    if (stage == 2) rank.call("Torch.final.0.forward", block, number(1), number(1));
    rank.call(back, "", number(-value), number(-value));
    if (stage > 0) rank.call("Module.decoder.norm.Norm.backward.0", back, number(value), number(0));
    // Gradients that vanish are equal on all stages.
    for (int i = depths[stage] - 1; i >= 0; --i) rank.call(layer(i, "backward"), back, number(0), number(0));
    ranks.push_back(rank);
  }
  const Graph merged = merge_one(graphs_of(ranks), {.rank_size = 3, .pp = 3});
  std::vector<std::string> forward, backward = {"Module.decoder.norm.Norm.backward.0"};
  for (int i = 0; i < 6; ++i) forward.push_back(layer(i, "forward"));
  forward.insert(forward.end(), {"Module.decoder.norm.Norm.forward.0", "Torch.final_rank2.0.forward"});
  for (int i = 5; i >= 0; --i) backward.push_back(layer(i, "backward"));
  CHECK(children_of(merged, "Module.decoder.Block.forward.0") == forward);
  CHECK(children_of(merged, "Module.decoder.Block.backward.0") == backward);
  for (int i = 0; i < 6; ++i) {
    INFO(i);
    CHECK(numbers_of(data_of(merged, layer(i, "forward")).inputs[0]) ==
          Statistics{1.0 + i, 1.0 + i, 1.0 + i, 1.0 + i});
    REQUIRE(children_of(merged, layer(i, "forward")).size() == 1);
  }
  CHECK(children_of(merged, layer(4, "forward"))[0] == "Torch.add_rank1.2.forward");
  CHECK(numbers_of(data_of(merged, "Module.decoder.Block.forward.0").inputs[0])->at(0) == 1);
  CHECK(numbers_of(data_of(merged, "Module.decoder.Block.forward.0").outputs[0])->at(0) == 7);
  CHECK(numbers_of(data_of(merged, "Module.decoder.Block.backward.0").inputs[0])->at(0) == -7);
  CHECK(numbers_of(data_of(merged, "Module.decoder.norm.Norm.forward.0").outputs[0])->at(0) == -7);
}

TEST_CASE("Layers at the top level of a model") {
  const auto stage = [](double value) {
    Rank rank;
    for (const char* const i : {"0", "1"}) {
      rank.call("Module.layers." + std::string(i) + ".Layer.forward.0", "", number(value), number(value + 1));
      value += 1;
    }
    for (const char* const i : {"1", "0"}) {
      rank.call("Module.layers." + std::string(i) + ".Layer.backward.0", "", number(-value), number(value));
      value -= 1;
    }
    return rank;
  };
  const Graph merged = merge_one(graphs_of({stage(1), stage(3)}), {.rank_size = 2, .pp = 2});
  std::vector<std::string> expected;
  for (int i = 0; i < 4; ++i) expected.push_back("Module.layers." + std::to_string(i) + ".Layer.forward.0");
  for (int i = 3; i >= 0; --i) expected.push_back("Module.layers." + std::to_string(i) + ".Layer.backward.0");
  CHECK(children_of(merged, "DefaultModel") == expected);
}

namespace {

// A virtual pipeline made up: what stage and chunk have of the layers of a model, each of which takes the
// number i and gives i + 1. depths[chunk][stage]: how many layers.
class Interleaved {
 public:
  explicit Interleaved(std::vector<std::vector<int>> depths) : depths_(std::move(depths)) {}

  std::vector<Rank> ranks() const {
    const std::size_t stages = depths_.front().size();
    std::vector<Rank> ranks(stages);
    std::vector<int> calls(stages);
    std::vector<std::vector<int>> first(depths_.size(), std::vector<int>(stages));
    int layers = 0;
    for (std::size_t chunk = 0; chunk < depths_.size(); ++chunk) {
      for (std::size_t stage = 0; stage < stages; ++stage) {
        first[chunk][stage] = layers;
        forward(ranks[stage], chunk, stage, layers, calls[stage]);
        layers += depths_[chunk][stage];
      }
    }
    for (std::size_t chunk = depths_.size(); chunk-- > 0;) {
      for (std::size_t stage = stages; stage-- > 0;)
        backward(ranks[stage], chunk, stage, first[chunk][stage]);
    }
    return ranks;
  }

  int layer_count() const {
    int count = 0;
    for (const auto& stages : depths_) count = std::accumulate(stages.begin(), stages.end(), count);
    return count;
  }

  static std::string module(std::size_t chunk, const std::string& path, const std::string& direction) {
    return "Module." + std::to_string(chunk) + "." + path + "." + direction + ".0";
  }
  static std::string layer(std::size_t chunk, int number, const std::string& direction) {
    return module(chunk, "decoder.layers." + std::to_string(number) + ".Layer", direction);
  }

 private:
  bool is_last(std::size_t chunk, std::size_t stage) const {
    return chunk + 1 == depths_.size() && stage + 1 == depths_.front().size();
  }

  void forward(Rank& rank, std::size_t chunk, std::size_t stage, int value, int& calls) const {
    const std::string model = module(chunk, "Model", "forward");
    const std::string block = module(chunk, "decoder.Block", "forward");
    const int depth = depths_[chunk][stage];
    rank.call(model, "", number(value), number(value + depth));
    if (chunk == 0 && stage == 0)
      rank.call(module(0, "embedding.Embedding", "forward"), model, number(-1), number(0));
    rank.call(block, model, number(value), number(value + depth));
    for (int i = 0; i < depth; ++i) {
      rank.call(layer(chunk, i, "forward"), block, number(value + i), number(value + i + 1));
      rank.call("Torch.add." + std::to_string(calls++) + ".forward", layer(chunk, i, "forward"),
                number(value + i), number(value + i + 1));
    }
    // All chunks but the first have it, on the last stage.
    if (chunk > 0 && stage + 1 == depths_.front().size()) {
      rank.call(module(chunk, "decoder.norm.Norm", "forward"), block, number(7),
                number(static_cast<double>(chunk)));
    }
    if (is_last(chunk, stage))
      rank.call(module(chunk, "output.Linear", "forward"), model, number(value + depth), number(99));
  }

  void backward(Rank& rank, std::size_t chunk, std::size_t stage, int value) const {
    const std::string model = module(chunk, "Model", "backward");
    const std::string block = module(chunk, "decoder.Block", "backward");
    const int depth = depths_[chunk][stage];
    rank.call(model, "", number(-value - depth), number(-value));
    rank.call(block, model, number(-value - depth), number(-value));
    for (int i = depth - 1; i >= 0; --i)
      rank.call(layer(chunk, i, "backward"), block, number(-value - i - 1), number(-value - i));
  }

  std::vector<std::vector<int>> depths_;
};

double value_of(const Parameter& parameter) {
  const auto numbers = numbers_of(parameter);
  REQUIRE(numbers);
  return numbers->front();
}

}  // namespace

TEST_CASE("Virtual pipelines with three and more chunks are the model") {
  const std::vector<std::vector<std::vector<int>>> jobs = {
      {{1, 1}, {1, 1}, {1, 1}},          // three chunks
      {{2, 2}, {2, 2}, {2, 2}, {2, 2}},  // four
      {{1, 2}, {2, 1}, {1, 1}, {2, 0}},  // the last stage ends with the output alone
      {{1, 0}, {1, 1}, {0, 2}},          // chunks whose layers are on one stage
      {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}}  // three stages
  };
  for (const auto& depths : jobs) {
    const Interleaved job(depths);
    const int stages = static_cast<int>(depths.front().size()), chunks = static_cast<int>(depths.size());
    INFO("job of " << chunks << " chunks, number " << &depths - jobs.data());
    const Graph merged =
        merge_one(graphs_of(job.ranks()), {.rank_size = stages, .pp = stages, .vpp = chunks});
    std::vector<std::string> forward, backward;
    for (int i = 0; i < job.layer_count(); ++i) forward.push_back(Interleaved::layer(0, i, "forward"));
    forward.push_back(Interleaved::module(0, "decoder.norm.Norm", "forward"));
    for (int i = job.layer_count(); i-- > 0;) backward.push_back(Interleaved::layer(0, i, "backward"));
    const std::string block = Interleaved::module(0, "decoder.Block", "forward");
    const std::string back = Interleaved::module(0, "decoder.Block", "backward");
    CHECK(children_of(merged, block) == forward);
    CHECK(children_of(merged, back) == backward);
    CHECK(value_of(data_of(merged, forward.back()).outputs[0]) == chunks - 1);  // that of the last chunk
    for (int i = 0; i < job.layer_count(); ++i) {
      INFO("layer " << i);
      const NodeData data = data_of(merged, Interleaved::layer(0, i, "forward"));
      CHECK(value_of(data.inputs[0]) == i);
      CHECK(value_of(data.outputs[0]) == i + 1);
      CHECK(value_of(data_of(merged, Interleaved::layer(0, i, "backward")).inputs[0]) == -i - 1);
      CHECK(children_of(merged, Interleaved::layer(0, i, "forward")).size() == 1);
    }
    for (const char* const name : {"Model", "decoder.Block"}) {
      const NodeData data = data_of(merged, Interleaved::module(0, name, "forward"));
      CHECK(value_of(data.inputs[0]) == 0);
      CHECK(value_of(data.outputs[0]) == job.layer_count());
      const NodeData gradients = data_of(merged, Interleaved::module(0, name, "backward"));
      CHECK(value_of(gradients.inputs[0]) == -job.layer_count());
      CHECK(value_of(gradients.outputs[0]) == 0);
    }
    CHECK(children_of(merged, "DefaultModel") ==
          std::vector<std::string>{Interleaved::module(0, "Model", "forward"),
                                   Interleaved::module(0, "Model", "backward")});
    CHECK(children_of(merged, Interleaved::module(0, "Model", "forward")) ==
          std::vector<std::string>{Interleaved::module(0, "embedding.Embedding", "forward"), block,
                                   Interleaved::module(0, "output.Linear", "forward")});
  }
}

// ---- By the placement of DTensors

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

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

}  // namespace msprobe::graph

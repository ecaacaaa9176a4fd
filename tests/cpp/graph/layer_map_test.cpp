// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/layer_map.h"

#include <map>

#include "catch.h"
#include "graph/table.h"
#include "msprobe/error.h"

using namespace msprobe;
using namespace msprobe::graph;

namespace {

const std::string kLayerMapData = MSPROBE_TEST_DATA "/graph/layer_map/";

const std::string kTensor = R"({"type":"torch.Tensor","dtype":"torch.float32","shape":[2]})";

// A record and its parent in construct.json, which is not empty but for "none".
using Records = std::vector<std::pair<std::string, std::string>>;

Dump make_dump(const Records& records, const std::string& stack = "{}") {
  std::string data, construct;
  for (const auto& [name, parent] : records) {
    const std::string comma = data.empty() ? "" : ",";
    data += comma + "\"" + name + "\":{\"output\":[" + kTensor + "]}";
    construct += comma + "\"" + name + "\":" + (parent == "none" ? "null" : "\"" + parent + "\"");
  }
  Dump dump;
  dump.trace = trace::parse_trace("{\"data\":{" + data + "}}", "run/dump.json");
  dump.construct = trace::parse_construct("{" + construct + "}", "run/construct.json");
  dump.stacks = trace::parse_stacks(stack, "run/stack.json");
  return dump;
}

std::map<std::string, std::string> mapped(const Records& target, const Records& golden,
                                          const LayerRules& rules = {}) {
  const auto names = map_layers(make_dump(target), make_dump(golden), rules);
  return {names.begin(), names.end()};
}

// Modules, for which nothing but the name counts.
Records modules(const std::vector<std::string>& names) {
  Records records;
  for (const std::string& name : names) records.emplace_back(name, "none");
  return records;
}

std::string mapped_module(const std::string& target, const std::vector<std::string>& golden,
                          const LayerRules& rules, const std::vector<std::string>& around = {}) {
  auto names = around;
  names.push_back(target);
  return mapped(modules(names), modules(golden), rules).at(target);
}

}  // namespace

TEST_CASE("layer map: real models with equal and with other names") {
  const LayerRules renamed = {{"TopLayer", {{"emb", "embedding"}}},
                              {"SelfAttention", {{"qkv", "query_key_value"}, {"proj", "dense"}}},
                              {"Block", {{"mlp", "ffn"}}},
                              {"MLP", {{"fc1", "up"}, {"fc2", "down"}}}};
  std::map<std::string, std::unordered_map<std::string, std::string>> maps;
  std::map<std::string, Dump> golden;
  int count = 0;
  for (const auto& row : test::read_table(kLayerMapData + "expected.tsv")) {
    const std::string &graph = row[0], &name = row[3];
    CAPTURE(graph, name);
    if (!maps.contains(graph)) {
      golden.emplace(graph, read_dump(kLayerMapData + row[2]));
      maps[graph] = map_layers(read_dump(kLayerMapData + row[1]), golden.at(graph),
                               graph == "var_lm" ? renamed : LayerRules());
    }
    REQUIRE(maps[graph].contains(name));
    const std::string& other = maps[graph].at(name);
    if (other != kNoLayer) CHECK(golden.at(graph).trace.find(other));
    CHECK((other == kNoLayer ? "" : other) == row[4]);
    ++count;
  }
  CHECK(count == 2 * 189);
}

TEST_CASE("layer map: rules belong to the class of the layer they stand in") {
  const LayerRules rules = {{"Block", {{"mlp", "ffn"}}}};
  const std::vector<std::string> golden = {"Module.a.ffn.MLP.forward.0", "Module.a.mlp.MLP.forward.0"};
  CHECK(mapped_module("Module.a.mlp.X.forward.0", golden, rules, {"Module.a.Block.forward.0"}) == golden[0]);
  CHECK(mapped_module("Module.a.mlp.X.forward.0", golden, rules, {"Module.a.Other.forward.0"}) == golden[1]);
  CHECK(mapped_module("Module.a.mlp.X.forward.0", golden, rules) == golden[1]);
}

TEST_CASE("layer map: the longest rule counts, of several parts on both sides") {
  const LayerRules rules = {
      {"TopLayer", {{"a", "x"}, {"a.b", "y.z"}, {"a.b.c.d", "never"}, {"a.e", "q"}, {"model", "p.q.model"}}}};
  CHECK(mapped_module("Module.a.b.c.L.forward.0", {"Module.y.z.c.L.forward.0"}, rules) ==
        "Module.y.z.c.L.forward.0");
  CHECK(mapped_module("Module.a.f.L.forward.0", {"Module.x.f.L.forward.0"}, rules) ==
        "Module.x.f.L.forward.0");
  CHECK(mapped_module("Module.a.e.L.forward.0", {"Module.q.L.forward.0"}, rules) == "Module.q.L.forward.0");
  CHECK(mapped_module("Module.model.L.forward.0", {"Module.p.q.model.L.forward.0"}, rules) ==
        "Module.p.q.model.L.forward.0");
  // Part by part, not letter by letter.
  CHECK(mapped_module("Module.ab.L.forward.0", {"Module.xb.L.forward.0", "Module.ab.L.forward.0"}, rules) ==
        "Module.ab.L.forward.0");
  // The rules of the layers below a rule of several parts.
  CHECK(mapped_module("Module.a.b.c.L.forward.0", {"Module.y.z.k.L.forward.0"},
                      {{"TopLayer", {{"a.b", "y.z"}}}, {"Inner", {{"c", "k"}}}},
                      {"Module.a.b.Inner.forward.0"}) == "Module.y.z.k.L.forward.0");
}

TEST_CASE("layer map: several records of one place are taken in their order, each direction by itself") {
  CHECK(mapped(modules({"Module.a.L.forward.0", "Module.a.L.forward.1", "Module.a.L.backward.0",
                        "Module.a.L.parameters_grad"}),
               modules({"Module.a.M.backward.0", "Module.a.M.forward.0", "Module.a.M.parameters_grad"})) ==
        std::map<std::string, std::string>{{"Module.a.L.forward.0", "Module.a.M.forward.0"},
                                           {"Module.a.L.forward.1", "N/A"},
                                           {"Module.a.L.backward.0", "Module.a.M.backward.0"},
                                           {"Module.a.L.parameters_grad", "Module.a.M.parameters_grad"}});
}

TEST_CASE("layer map: calls of operators, by module and function") {
  const std::string a = "Module.a.L.forward.0", b = "Module.b.L.forward.0", c = "Module.c.L.forward.0";
  const Records target = {{"Torch.add.0.forward", a},
                          {"Torch.add.1.forward", b},
                          {"Torch.mul.0.forward", b},
                          {"Torch.add.2.forward", "none"},
                          {"Torch.add.1.backward", "none"}};
  const Records golden = {{"Torch.add.0.forward", "none"},
                          {"Torch.add.1.forward", a},
                          {"Torch.add.2.forward", a},
                          {"Torch.add.3.forward", c},
                          {"Torch.add.3.backward", "none"}};
  CHECK(mapped(target, golden, {{"TopLayer", {{"b", "c"}}}}) ==
        std::map<std::string, std::string>{{"Torch.add.0.forward", "Torch.add.1.forward"},
                                           {"Torch.add.1.forward", "Torch.add.3.forward"},
                                           {"Torch.mul.0.forward", "N/A"},
                                           {"Torch.add.2.forward", "Torch.add.0.forward"},
                                           // its forward call was in b
                                           {"Torch.add.1.backward", "Torch.add.3.backward"}});
}

TEST_CASE("layer map: a call by a function of torch is another place than one by the model") {
  const std::string a = "Module.a.L.forward.0";
  const auto stack = [](const std::string& name, const std::string& frames) {
    return R"({"0":[[")" + name + "\"],[\"File /site-packages/msprobe/api.py, line 1, in call, \\n x\"" +
           frames + R"(,"File /site-packages/torch/nn/activation.py, line 5, in forward, \n y"]]})";
  };
  const std::string inside = R"(,"File /site-packages/torch/nn/functional.py, line 2, in attention, \n z")";
  const std::string by_user = R"(,"File /job/model.py, line 2, in attention, \n z")";
  const auto golden_of = [&](const std::string& target_frames, const std::string& golden_frames) {
    const Records record = {{"Torch.add.0.forward", a}};
    return map_layers(make_dump(record, stack("Torch.add.0.forward", target_frames)),
                      make_dump(record, stack("Torch.add.0.forward", golden_frames)), {})
        .at("Torch.add.0.forward");
  };
  CHECK(golden_of(inside, inside) == "Torch.add.0.forward");
  CHECK(golden_of(inside, "") == "N/A");
  CHECK(golden_of(by_user, "") == "Torch.add.0.forward");
  CHECK(golden_of(by_user + inside, "") == "Torch.add.0.forward");
  CHECK(golden_of(inside + by_user, inside) == "Torch.add.0.forward");
}

TEST_CASE("layer map: a stage of a pipeline numbers its layers from any number on") {
  const std::string list = "Module.language_model.encoder";
  const std::string whole = list + ".ParallelTransformer.forward.0";
  CHECK(mapped(modules({whole, list + ".layers.4.L.forward.0", list + ".layers.12.L.forward.0",
                        "Module.layers.7.L.forward.0", list + ".layers.norm.N.forward.0"}),
               modules({whole, list + ".layers.0.L.forward.0", list + ".layers.8.L.forward.0",
                        "Module.layers.7.L.forward.0", list + ".layers.norm.N.forward.0"})) ==
        std::map<std::string, std::string>{
            {whole, whole},
            {list + ".layers.4.L.forward.0", list + ".layers.0.L.forward.0"},
            {list + ".layers.12.L.forward.0", list + ".layers.8.L.forward.0"},
            {"Module.layers.7.L.forward.0", "Module.layers.7.L.forward.0"},
            {list + ".layers.norm.N.forward.0", list + ".layers.norm.N.forward.0"}});
}

TEST_CASE("layer map: names that hold no place are refused") {
  const Records good = modules({"Module.a.L.forward.0"}), bad = modules({"Torch.add.forward"});
  CHECK_THROWS_WITH(
      mapped(bad, good),
      "run/dump.json: \"Torch.add.forward\": its layer cannot be mapped, expected a name of 4 to "
      "2000 parts, found 3");
  CHECK_THROWS_AS(mapped(good, bad), InvalidArgument);
  std::string deep = "Module";
  for (int i = 0; i < 100000; ++i) deep += ".a";
  CHECK_THROWS_AS(mapped(modules({deep + ".L.forward.0"}), good), InvalidArgument);
  CHECK(mapped({{"Torch.add.0.forward", deep}}, good).at("Torch.add.0.forward") == "N/A");
  CHECK(mapped({}, good).empty());
  CHECK(mapped(good, {}).at("Module.a.L.forward.0") == kNoLayer);
}

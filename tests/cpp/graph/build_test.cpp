// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <random>
#include <set>

#include "catch.h"
#include "graph/made_up.h"
#include "msprobe/error.h"
#include "msprobe/graph.h"
#include "temp_dir.h"

using namespace msprobe;
using namespace msprobe::graph;
using test::children_of;
using test::has;
using test::MadeDump;
using test::parent_of;
using test::problem_of;

namespace {

using Names = std::vector<std::string>;

// What must hold of every graph, whatever was read.
void check_tree(const Graph& graph) {
  const auto order = graph.post_order();
  std::set<NodeId> seen;
  std::set<std::string_view> names;
  for (const NodeId node : order) {
    CHECK(seen.insert(node).second);
    CHECK(names.insert(graph[node].name).second);
    CHECK(graph.find(graph[node].name) == node);
    for (const NodeId child : graph[node].children) {
      CHECK(graph[child].parent == node);
      CHECK(seen.contains(child));
    }
  }
  REQUIRE(!order.empty());
  CHECK(order.back() == Graph::kRoot);
  CHECK(graph[Graph::kRoot].parent == kNoNode);
}

Graph build_l1(const MadeDump& made) {
  auto dump = made.read();
  dump->construct = {};
  return build(std::move(dump));
}

}  // namespace

TEST_CASE("build: children stand in the order in which their entries were met") {
  const Graph graph = MadeDump()
                          .call("Torch.add.0.forward", "Module.a.Block.forward.0")
                          .call("Module.a.fc.Linear.forward.0", "Module.a.Block.forward.0")
                          .call("Module.a.Block.forward.0", "Module.Model.forward.0")
                          .call("Module.b.Block.forward.0", "Module.Model.forward.0")
                          .call("Module.Model.forward.0")
                          .build();
  check_tree(graph);
  CHECK(children_of(graph) == Names{"Module.Model.forward.0"});
  CHECK(children_of(graph, "Module.Model.forward.0") ==
        Names{"Module.a.Block.forward.0", "Module.b.Block.forward.0"});
  CHECK(children_of(graph, "Module.a.Block.forward.0") ==
        Names{"Torch.add.0.forward", "Module.a.fc.Linear.forward.0"});
  CHECK(test::names_of(graph, graph.post_order()) ==
        Names{"Torch.add.0.forward", "Module.a.fc.Linear.forward.0", "Module.a.Block.forward.0",
              "Module.b.Block.forward.0", "Module.Model.forward.0", "DefaultModel"});
}

TEST_CASE("build: the kind of a node follows from its prefix and one character more") {
  const Graph graph = MadeDump()
                          .call("Module.a.A.forward.0")
                          .call("Tensor.add.0.forward", "Module.a.A.forward.0")
                          .call("Torchx", "Module.a.A.forward.0")
                          .call("Torch", "Module.a.A.forward.0")
                          .call("optimizer")
                          .call("clip_grad", "optimizer")
                          .call("Mint.add.0.forward", "optimizer")
                          .build();
  const auto kind = [&](std::string_view name) { return graph[graph.find(name)].kind; };
  CHECK(kind("Tensor.add.0.forward") == NodeKind::kCall);
  CHECK(kind("Mint.add.0.forward") == NodeKind::kCall);
  CHECK(kind("Torchx") == NodeKind::kCall);
  CHECK(kind("Torch") == NodeKind::kModule);
  CHECK(kind("optimizer") == NodeKind::kModule);
  CHECK(kind("DefaultModel") == NodeKind::kModule);
}

TEST_CASE("build: a backward call without a parent hangs below that of its forward call") {
  const Graph graph = MadeDump()
                          .entry("Module.a.A.forward.3", "null")
                          .entry("Module.a.fc.L.forward.3", R"("Module.a.A.forward.3")")
                          .entry("Torch.add.7.forward", R"("Module.a.A.forward.3")")
                          .entry("Torch.mul.0.forward", R"("Module.gone.G.forward.0")")
                          .entry("Module.a.fc.L.backward.3", "null")
                          .entry("Torch.add.7.backward", "null")
                          .entry("Torch.mul.0.backward", "null")
                          .entry("Module.a.A.backward.3", "null")
                          .build();
  check_tree(graph);
  CHECK(parent_of(graph, "Module.a.fc.L.backward.3") == "Module.a.A.backward.3");
  CHECK(parent_of(graph, "Torch.add.7.backward") == "Module.a.A.backward.3");
  // The backward call of its module was not recorded.
  CHECK(parent_of(graph, "Torch.mul.0.backward") == "DefaultModel");
  CHECK(parent_of(graph, "Module.a.A.backward.3") == "DefaultModel");
}

TEST_CASE("build: a backward call of a module in the wrong place goes to that of its forward call") {
  const Graph graph = MadeDump()
                          .entry("Module.a.A.forward.0", "null")
                          .entry("Module.a.fc.L.forward.0", R"("Module.a.A.forward.0")")
                          .entry("Module.b.relu.R.forward.0", "null")
                          .entry("Module.a.A.backward.0", "null")
                          .entry("Module.b.relu.R.backward.0", R"("Module.a.A.backward.0")")
                          .entry("Module.a.fc.L.backward.0", R"("Module.b.relu.R.backward.0")")
                          .entry("Torch.add.0.backward", R"("Module.b.relu.R.backward.0")")
                          .build();
  check_tree(graph);
  CHECK(parent_of(graph, "Module.a.fc.L.backward.0") == "Module.a.A.backward.0");
  CHECK(parent_of(graph, "Module.b.relu.R.backward.0") == "DefaultModel");          // as its forward call
  CHECK(parent_of(graph, "Torch.add.0.backward") == "Module.b.relu.R.backward.0");  // only modules move
}

TEST_CASE("build: recomputed modules go where the backward pass of their first call was") {
  MadeDump made;
  made.entry("Module.0.Float16Module.forward.0", "null")
      .entry("Module.0.module.layers.0.Layer.forward.0", R"("Module.0.Float16Module.forward.0")")
      .entry("Module.0.module.layers.0.mlp.MLP.forward.0", R"("Module.0.module.layers.0.Layer.forward.0")")
      .entry("Module.0.Float16Module.backward.0", "null")
      .entry("Module.0.module.layers.0.Layer.backward.0", R"("Module.0.Float16Module.backward.0")")
      .entry("Module.0.module.layers.0.mlp.MLP.forward.1", "null")
      .entry("Module.0.module.layers.0.mlp.MLP.backward.1", "null");
  const Graph graph = made.build();
  check_tree(graph);
  CHECK(children_of(graph) == Names{"Module.0.Float16Module.forward.0", "Module.0.Float16Module.backward.0"});
  // Forward and backward each take the first original call.
  CHECK(children_of(graph, "Module.0.module.layers.0.Layer.backward.0") ==
        Names{"Module.0.module.layers.0.mlp.MLP.forward.1", "Module.0.module.layers.0.mlp.MLP.backward.1"});
}

TEST_CASE("build: what is no recomputation stays at the top") {
  SECTION("without a backward call beside it") {
    const Graph graph = MadeDump()
                            .entry("Module.0.module.layers.0.Layer.forward.0", "null")
                            .entry("Module.0.module.layers.0.Layer.backward.0", "null")
                            .entry("Module.0.module.layers.0.mlp.MLP.forward.0",
                                   R"("Module.0.module.layers.0.Layer.forward.0")")
                            .entry("Module.0.module.layers.0.mlp.MLP.forward.1", "null")
                            .build();
    CHECK(parent_of(graph, "Module.0.module.layers.0.mlp.MLP.forward.1") == "DefaultModel");
  }
  SECTION("names with few parts") {
    const Graph graph = MadeDump()
                            .entry("Module.0.A.forward.0", "null")
                            .entry("Module.0.a.B.forward.0", R"("Module.0.A.forward.0")")
                            .entry("Module.0.A.backward.0", "null")
                            .entry("Module.0.a.B.forward.1", "null")
                            .entry("Module.0.a.B.backward.1", "null")
                            .build();
    CHECK(parent_of(graph, "Module.0.a.B.forward.1") == "DefaultModel");
  }
}

TEST_CASE("build: two or more calls between modules are joined, single ones are not") {
  const Graph graph = MadeDump()
                          .call("Torch.a.0.forward")
                          .call("Torch.b.0.forward")
                          .call("Module.x.X.forward.0")
                          .call("Torch.c.0.forward")
                          .call("Module.y.Y.forward.0")
                          .call("Torch.d.0.forward")
                          .call("Torch.e.0.forward")
                          .call("Torch.f.0.forward")
                          .build();
  check_tree(graph);
  CHECK(children_of(graph) == Names{"Apis_Between_Modules.0", "Module.x.X.forward.0", "Torch.c.0.forward",
                                    "Module.y.Y.forward.0", "Apis_Between_Modules.1"});
  CHECK(graph[graph.find("Apis_Between_Modules.0")].kind == NodeKind::kCollection);
  CHECK(children_of(graph, "Apis_Between_Modules.1") ==
        Names{"Torch.d.0.forward", "Torch.e.0.forward", "Torch.f.0.forward"});
}

TEST_CASE("build: a node that is called as a collection would be keeps its name") {
  const Graph graph =
      MadeDump().call("Apis_Between_Modules.0").call("Torch.a.0.forward").call("Torch.b.0.forward").build();
  check_tree(graph);
  CHECK(children_of(graph) == Names{"Apis_Between_Modules.0", "Apis_Between_Modules.1"});
  CHECK(children_of(graph, "Apis_Between_Modules.0").empty());
}

TEST_CASE("build: gradients hang below the last backward call of their module") {
  const Graph graph =
      MadeDump()
          .call("Module.a.L.forward.0")
          .call("Module.a.L.backward.9")
          .call("Module.a.L.backward.10")
          .call("Module.a.L.backward.2")
          .record("Module.a.L.parameters_grad", R"("weight":[)" + test::MadeTensor().json() + "]")
          .record("Module.b.L.parameters_grad", R"("weight":[])")
          .build();
  check_tree(graph);
  CHECK(parent_of(graph, "Module.a.L.parameters_grad") == "Module.a.L.backward.10");
  CHECK(parent_of(graph, "Module.b.L.parameters_grad") == "-");
  NodeData data;
  graph.read_data(graph.find("Module.a.L.parameters_grad"), data);
  CHECK(data.inputs.size() == 1);
  CHECK(data.outputs.empty());
}

TEST_CASE("build: a pass forward and backward is a micro step") {
  const Graph graph = MadeDump()
                          .call("Module.a.A.forward.0")
                          .call("Torch.x.0.forward", "Module.a.A.forward.0")
                          .call("Torch.between.0.forward")
                          .call("Module.a.A.backward.0")
                          .call("Module.a.A.forward.1")
                          .call("Module.b.B.forward.0")
                          .call("Module.a.A.backward.1")
                          .call("optimizer")
                          .call("Torch.y.0.forward", "Module.a.A.forward.1")
                          .build();
  const auto step = [&](std::string_view name) { return graph[graph.find(name)].micro_step; };
  CHECK(graph.micro_steps() == 2);
  CHECK(step("Torch.x.0.forward") == 0);
  CHECK(step("Torch.between.0.forward") == 0);
  CHECK(step("Module.a.A.backward.0") == 0);
  CHECK(step("Module.a.A.forward.1") == 1);
  CHECK(step("Torch.y.0.forward") == 1);
  CHECK(step("optimizer") == 1);
}

TEST_CASE("build: micro steps that the file numbers are taken as they are") {
  const Graph graph = MadeDump()
                          .entry("Module.a.A.forward.0", "[null, 0]")
                          .entry("Torch.x.0.forward", R"(["Module.a.A.forward.0", 2])")
                          .entry("Torch.y.0.forward", "[null, 1]")
                          .entry("Torch.z.0.forward", "[null, 1]")
                          .entry("optimizer", "null")
                          .entry("megatron_micro_step_number", "3")
                          .build();
  const auto step = [&](std::string_view name) { return graph[graph.find(name)].micro_step; };
  CHECK(graph.find("megatron_micro_step_number") == kNoNode);
  CHECK(graph.micro_steps() == 4);
  CHECK(step("Module.a.A.forward.0") == 0);
  CHECK(step("Torch.x.0.forward") == 2);
  CHECK(step("Apis_Between_Modules.0") == 1);
  CHECK(step("optimizer") == 0);
}

TEST_CASE("build: a stack is that of the record, or of the forward call") {
  const Graph graph = MadeDump()
                          .call("Module.a.A.forward.0")
                          .call("Torch.x.4.forward", "Module.a.A.forward.0")
                          .call("Module.a.A.backward.5")
                          .call("Torch.x.4.backward", "Module.a.A.backward.5")
                          .call("Torch.lost.0.backward", "Module.a.A.backward.5")
                          .stack("Module.a.A.forward.0", {"File a"})
                          .stack("Torch.x.4.forward", {"File x", "File y"})
                          .build();
  const auto stack = [&](std::string_view name) {
    const auto frames = graph[graph.find(name)].stack;
    return Names(frames.begin(), frames.end());
  };
  CHECK(stack("Module.a.A.forward.0") == Names{"File a"});
  CHECK(stack("Module.a.A.backward.5") == Names{"File a"});
  CHECK(stack("Torch.x.4.backward") == Names{"File x", "File y"});
  REQUIRE(stack("Torch.lost.0.backward").size() == 1);
  CHECK(stack("Torch.lost.0.backward").front().starts_with("This backward node cannot find"));
  CHECK(stack("DefaultModel").empty());
}

TEST_CASE("build: parents that dangle hang on the root, a parent of itself does too") {
  const Graph graph = MadeDump()
                          .entry("Torch.x.0.forward", R"("Module.nowhere.N.forward.0")")
                          .entry("Module.self.S.forward.0", R"("Module.self.S.forward.0")")
                          .build();
  check_tree(graph);
  CHECK(parent_of(graph, "Module.nowhere.N.forward.0") == "DefaultModel");
  CHECK(parent_of(graph, "Torch.x.0.forward") == "Module.nowhere.N.forward.0");
  CHECK(parent_of(graph, "Module.self.S.forward.0") == "DefaultModel");
}

TEST_CASE("build: the root may be named in the file") {
  const Graph graph = MadeDump()
                          .entry("DefaultModel", R"("Torch.x.0.forward")")
                          .entry("Torch.x.0.forward", R"("DefaultModel")")
                          .build();
  check_tree(graph);
  CHECK(children_of(graph) == Names{"Torch.x.0.forward"});
}

TEST_CASE("build: parents in a circle are an error that names one of them") {
  MadeDump made;
  made.entry("Module.a.A.forward.0", "null");
  for (const auto& [child, parent] : {std::pair("b", "c"), {"c", "d"}, {"d", "b"}}) {
    made.entry(std::string("Module.") + child + ".X.forward.0",
               std::string("\"Module.") + parent + ".X.forward.0\"");
  }
  const std::string problem = problem_of<FormatError>([&] { made.build(); });
  CAPTURE(problem);
  CHECK(problem.starts_with("run/construct.json: \"Module."));
  CHECK(has(problem, "expected a tree"));
}

TEST_CASE("build: of names that repeat the last parent counts") {
  const Graph graph = MadeDump()
                          .entry("Torch.x.0.forward", R"("Module.a.A.forward.0")")
                          .entry("Module.a.A.forward.0", "null")
                          .entry("Module.b.B.forward.0", "null")
                          .entry("Torch.x.0.forward", R"("Module.b.B.forward.0")")
                          .build();
  check_tree(graph);
  CHECK(parent_of(graph, "Torch.x.0.forward") == "Module.b.B.forward.0");
}

TEST_CASE("build: up to 2000 levels are a graph, more are an error") {
  const auto chain = [](int levels) {
    MadeDump made;
    for (int i = 0; i < levels; ++i) {
      const std::string parent = i == 0 ? "null" : "\"Module.m" + std::to_string(i - 1) + ".M.forward.0\"";
      made.entry("Module.m" + std::to_string(i) + ".M.forward.0", parent);
    }
    return made;
  };
  const Graph graph = chain(2000).build();
  CHECK(graph.path(graph.find("Module.m1999.M.forward.0")).size() == 2001);
  for (const int levels : {2001, 100'000}) {
    const MadeDump made = chain(levels);
    CHECK(has(problem_of<FormatError>([&] { made.build(); }), "more than 2000 parents"));
  }
}

TEST_CASE("build: a hierarchy whose paths would fill the disk is an error") {
  const auto below = [](const std::string& parent, int count) {
    MadeDump made;
    for (int i = 0; i < count; ++i)
      made.entry("Torch.x." + std::to_string(i) + ".forward", '"' + parent + '"');
    return made;
  };
  MadeDump deep = below("Module.m0.M.forward.0", 20'000);
  for (int i = 0; i < 1990; ++i) {
    deep.entry("Module.m" + std::to_string(i) + ".M.forward.0",
               "\"Module.m" + std::to_string(i + 1) + ".M.forward.0\"");
  }
  const std::string problem = problem_of<FormatError>([&] { deep.build(); });
  CAPTURE(problem);
  CHECK(problem.starts_with("run/construct.json: "));
  CHECK(has(problem, "MiB to name"));
  CHECK(below("Module.a.A.forward.0", 100'000).build().nodes().size() == 100'002);
}

TEST_CASE("build: random files give trees or an error that names the file") {
  std::mt19937 random(11);
  const Names names = {"Module.a.A.forward.0",
                       "Module.a.A.backward.0",
                       "Module.a.A.forward.1",
                       "Module.a.A.backward.1",
                       "Module.0.m.layers.0.l.L.forward.0",
                       "Module.0.m.layers.0.l.L.backward.0",
                       "Module.0.m.layers.0.l.L.forward.1",
                       "Module.0.m.layers.0.l.L.backward.1",
                       "Module.0.m.layers.0.Block.forward.0",
                       "Module.0.m.layers.0.Block.backward.0",
                       "Torch.x.0.forward",
                       "Torch.x.0.backward",
                       "Torch.y.0.forward",
                       "Apis_Between_Modules.0",
                       "DefaultModel",
                       "optimizer",
                       ".",
                       "",
                       "forward.0"};
  const auto any = [&] { return names[random() % names.size()]; };
  int trees = 0;
  for (int round = 0; round < 3000; ++round) {
    MadeDump made;
    for (std::size_t i = random() % 24; i > 0; --i) {
      const std::string parent = random() % 3 == 0 ? "null" : '"' + any() + '"';
      made.entry(any(), parent);
    }
    try {
      check_tree(made.build());
      ++trees;
    } catch (const FormatError& error) {
      CHECK(std::string(error.what()).starts_with("run/construct.json: "));
    }
  }
  CHECK(trees > 300);
}

// ---- Level L1

TEST_CASE("build: without a hierarchy, calls are grouped by the functions that called them") {
  const std::string main_frame = R"(File train.py, line 9, in main, \n step())";
  MadeDump made;
  made.call("Torch.a.0.forward").call("Torch.b.0.forward").call("Torch.c.0.forward");
  made.call("Torch.c.0.backward").call("Torch.d.0.forward");
  made.stack("Torch.a.0.forward", {R"(File model.py, line 3, in forward, \n x + 1)", main_frame});
  made.stack("Torch.b.0.forward", {R"(File model.py, line 3, in forward, \n x + 1)", main_frame});
  made.stack("Torch.c.0.forward", {R"(File model.py, line 7, in forward, \n x * 2)", main_frame});
  const Graph graph = build_l1(made);
  check_tree(graph);
  CHECK(children_of(graph) == Names{"Stack.main.0", "Stack.backward.0", "Torch.d.0.forward"});
  CHECK(children_of(graph, "Stack.main.0") == Names{"Stack.forward.0", "Stack.forward.1"});
  CHECK(children_of(graph, "Stack.forward.0") == Names{"Torch.a.0.forward", "Torch.b.0.forward"});
  CHECK(children_of(graph, "Stack.backward.0") == Names{"Stack.main.1"});
}

TEST_CASE("build: records called as the groups would be are nodes of their own") {
  MadeDump made;
  for (const std::string name : {"Stack.main.0", "DefaultModel", "Torch.a.0.forward", "Stack.main.1"}) {
    made.call(name);
    made.stack(name, {R"(File train.py, line 9, in main, \n step())"});
  }
  const Graph graph = build_l1(made);
  check_tree(graph);
  const auto order = test::names_of(graph, graph.post_order());
  for (const std::string name : {"Stack.main.0", "Torch.a.0.forward", "Stack.main.1"}) {
    CAPTURE(name);
    REQUIRE(std::count(order.begin(), order.end(), name) == 1);
    CHECK(graph[graph.find(name)].record != Node::kNoRecord);
  }
}

TEST_CASE("build: a stack of 100000 frames is an error, too") {
  std::vector<std::string> frames;
  for (int i = 0; i < 100'000; ++i)
    frames.push_back("File a.py, line " + std::to_string(i) + R"(, in f, \n f())");
  MadeDump made;
  made.call("Torch.a.0.forward").stack("Torch.a.0.forward", frames);
  CHECK(problem_of<FormatError>([&] { build_l1(made); }).starts_with("run/stack.json: "));
}

// ---- Files

TEST_CASE("read_dump: what is missing beside dump.json is left out") {
  const test::TempDir dir;
  const MadeDump made = MadeDump().call("Module.a.A.forward.0").stack("Module.a.A.forward.0", {"File a"});
  CHECK_THROWS_AS(read_dump(dir / "none"), IoError);
  test::write_bytes(dir / "dump.json", made.dump_json());
  Dump dump = read_dump(dir.path(), 3, 5);
  CHECK((dump.step == 3 && dump.rank == 5));
  CHECK((dump.construct.entries().empty() && dump.stacks.empty()));
  test::write_bytes(dir / "construct.json", made.construct_json());
  test::write_bytes(dir / "stack.json", made.stack_json());
  dump = read_dump(dir.path());
  CHECK(dump.construct.entries().size() == 1);
  CHECK_FALSE(dump.stacks.empty());
  for (const char* name : {"dump.json", "construct.json", "stack.json"}) {
    const std::string whole = test::read_bytes(dir / name);
    test::write_bytes(dir / name, whole.substr(0, whole.size() / 2));
    CHECK(has(problem_of<FormatError>([&] { read_dump(dir.path()); }), name));
    test::write_bytes(dir / name, whole);
  }
}

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "dump/abacus.h"

#include <string>
#include <vector>

#include "catch.h"
#include "msprobe/compare.h"
#include "msprobe/graph.h"
#include "temp_dir.h"

// A framework that nothing below its adapter has ever heard of is recorded, read, compared and drawn.
using namespace msprobe;
using test::TempDir;

namespace {

std::vector<std::string> names_of(const trace::Trace& trace) {
  std::vector<std::string> names;
  for (const trace::Record& record : trace.records()) names.emplace_back(trace.name(record));
  return names;
}

}  // namespace

TEST_CASE("a framework of its own: records, hierarchy and backward") {
  const TempDir folder;
  test::abacus::train(folder / "step0/rank", 5);
  const trace::Trace trace = trace::read_trace(folder / "step0/rank/dump.json");
  CHECK(trace.framework() == "abacus");
  CHECK(trace.package() == "abacus");
  CHECK(names_of(trace) ==
        std::vector<std::string>{
            "Bead.scale.0.forward", "Bead.relu.0.forward", "Module.layers.0.Frame.forward.0",
            "Bead.scale.1.forward", "Bead.relu.1.forward", "Module.layers.1.Frame.forward.0",
            "Bead.relu.1.backward", "Bead.scale.1.backward", "Module.layers.1.Frame.backward.0",
            "Bead.relu.0.backward", "Bead.scale.0.backward", "Module.layers.0.Frame.backward.0"});
  const trace::Item& item = trace.all_items().front();
  CHECK(trace.text(item.dtype) == "Float32");
  CHECK(item.element_type() == DType::kFloat32);
  CHECK(item.requires_grad == std::nullopt);

  const trace::Construct construct = trace::read_construct(folder / "step0/rank/construct.json");
  CHECK(construct.parent("Bead.relu.1.forward") == "Module.layers.1.Frame.forward.0");
  CHECK(construct.parent("Bead.relu.1.backward") == "Module.layers.1.Frame.backward.0");
}

TEST_CASE("a framework of its own: two runs are compared") {
  const TempDir folder;
  test::abacus::train(folder / "a/rank", 5);
  test::abacus::train(folder / "b/rank", 5);
  test::abacus::train(folder / "c/rank", 500);
  const auto failing = [&](const char* target, const char* reference) {
    return compare::summarize(
        compare::open_pair(folder / target / "rank/dump.json", folder / reference / "rank/dump.json"), {});
  };
  CHECK(failing("a", "b").failing == 0);
  const compare::TableSummary differs = failing("a", "c");
  CHECK(differs.matched == differs.rows);
  CHECK(differs.failing > 0);
  CHECK(differs.first_failing_name.starts_with("Bead.scale.1.forward.output"));
}

TEST_CASE("a framework of its own: its graph") {
  const TempDir folder;
  test::abacus::train(folder / "step0/rank", 5);
  const graph::Graph graph =
      graph::build(std::make_shared<graph::Dump>(graph::read_dump(folder / "step0/rank")));
  const graph::NodeId module = graph.find("Module.layers.1.Frame.forward.0");
  REQUIRE(module != graph::kNoNode);
  CHECK(graph[module].children.size() == 2);
  CHECK(graph[graph.find("Bead.scale.1.forward")].kind == graph::NodeKind::kCall);
  const graph::NodeId backward = graph.find("Bead.scale.0.backward");
  REQUIRE(backward != graph::kNoNode);
  CHECK(graph[graph[backward].parent].name == "Module.layers.0.Frame.backward.0");
}

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <map>

#include "catch.h"
#include "graph/made_up.h"
#include "msprobe/error.h"
#include "msprobe/graph.h"

using namespace msprobe;
using namespace msprobe::graph;
using test::has;
using test::MadeDump;
using test::MadeTensor;
using test::problem_of;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Names of target nodes -> those of their matches.
using Matched = std::map<std::string, std::string>;

Matched matched(const Graph& target, const Graph& golden, const MatchOptions& options = {}) {
  const NodeMatches matches = match_nodes(target, golden, options);
  REQUIRE(matches.of_target.size() == target.nodes().size());
  REQUIRE(matches.of_reference.size() == golden.nodes().size());
  Matched result;
  for (NodeId node = 0; node < matches.of_target.size(); ++node) {
    const NodeId other = matches.of_target[node];
    if (other == kNoNode) continue;
    CHECK(matches.of_reference[other] == node);
    result.emplace(target[node].name, golden[other].name);
  }
  result.erase("DefaultModel");
  return result;
}

Matched same(const std::vector<std::string>& names) {
  Matched result;
  for (const std::string& name : names) result.emplace(name, name);
  return result;
}

const MatchOptions kFuzzily = {.rule = MatchRule::kFuzzy, .check_shapes = true, .names = {}};

MadeTensor of_shape(const std::string& shape) {
  MadeTensor tensor;
  tensor.shape = shape;
  return tensor;
}

// Two graphs of one call, compared.
struct Judged {
  Graph target, golden;
  Comparison comparison;

  Judged(const MadeDump& ours, const MadeDump& theirs)
      : target(ours.build()), golden(theirs.build()), comparison(graph::compare(target, golden)) {}

  const NodeVerdict& operator[](std::string_view name) const {
    return comparison.verdicts[target.find(name)];
  }
};

Judged judge(const MadeTensor& ours, const MadeTensor& theirs, const std::string& task = "statistics") {
  return {MadeDump(task).call("Torch.x.0.forward", {}, ours),
          MadeDump(task).call("Torch.x.0.forward", {}, theirs)};
}

}  // namespace

// ---- Default

TEST_CASE("match_nodes: nodes of the same name, place, types and shapes belong together") {
  const MadeDump made = MadeDump()
                            .call("Torch.x.0.forward", "Module.a.A.forward.0")
                            .call("Module.a.A.forward.0")
                            .call("Torch.y.0.forward");
  CHECK(matched(made.build(), made.build()) ==
        same({"Torch.x.0.forward", "Module.a.A.forward.0", "Torch.y.0.forward"}));
}

TEST_CASE("match_nodes: one other thing is enough for no match") {
  const std::string record = "Torch.x.0.forward";
  const auto make = [&](const std::string& content) {
    return MadeDump().entry(record, "null").record(record, content).build();
  };
  const std::string tensor = MadeTensor().json(), other_shape = of_shape("[3, 2]").json();
  const std::string whole = R"({"type":"int","value":3})", text = R"({"type":"str","value":"3"})";
  const Graph golden = make(R"("input_args":[)" + tensor + "," + whole + R"(],"output":[)" + tensor + "]");
  CHECK(matched(golden, golden) == same({record}));
  for (const std::string& content :
       {R"("input_args":[)" + tensor + R"(],"output":[)" + tensor + "]",
        R"("input_args":[)" + tensor + "," + text + R"(],"output":[)" + tensor + "]",
        R"("input_args":[)" + other_shape + "," + whole + R"(],"output":[)" + tensor + "]",
        R"("input_args":[)" + tensor + "," + whole + R"(],"output":[)" + other_shape + "]",
        R"("input_args":[)" + tensor + "," + whole + R"(],"output":[)" + tensor + "," + tensor + "]",
        R"("input_args":[)" + tensor + "," + whole + "]"}) {
    CAPTURE(content);
    CHECK(matched(make(content), golden).empty());
    CHECK(matched(golden, make(content)).empty());
  }
  // Another value or dtype is a difference to judge, not another operator.
  MadeTensor half;
  half.dtype = "torch.bfloat16";
  const std::string content =
      R"("input_args":[)" + half.json() + R"(,{"type":"int","value":4}],"output":[)" + tensor + "]";
  CHECK(matched(make(content), golden) == same({record}));
}

TEST_CASE("match_nodes: a node below another parent has no match, nor has what is below it") {
  const Graph target = MadeDump()
                           .call("Torch.x.0.forward", "Module.in.I.forward.0")
                           .call("Module.in.I.forward.0", "Module.a.A.forward.0")
                           .call("Module.a.A.forward.0")
                           .build();
  const Graph golden = MadeDump()
                           .call("Torch.x.0.forward", "Module.in.I.forward.0")
                           .call("Module.in.I.forward.0", "Module.b.B.forward.0")
                           .call("Module.b.B.forward.0")
                           .call("Module.a.A.forward.0")
                           .build();
  CHECK(matched(target, golden) == same({"Module.a.A.forward.0"}));
  CHECK(unmatched_reason(target, golden, {}, target.find("Module.in.I.forward.0"), false) ==
        "in the other run it is in Module.b.B.forward.0");
  CHECK(unmatched_reason(target, golden, {}, target.find("Torch.x.0.forward"), false) ==
        "a module around it has another place in the other run");
  CHECK(unmatched_reason(golden, target, {}, golden.find("Module.b.B.forward.0"), true) ==
        "the target has no node of this name");
}

TEST_CASE("match_nodes: a parent without a match may have children with one") {
  const auto make = [](const std::string& shape) {
    return MadeDump()
        .call("Torch.x.0.forward", "Module.a.A.forward.0")
        .call("Module.a.A.forward.0", {}, of_shape(shape))
        .build();
  };
  CHECK(matched(make("[2]"), make("[4]")) == same({"Torch.x.0.forward"}));
}

TEST_CASE("unmatched_reason: says what is different") {
  const std::string record = "Torch.x.0.forward";
  const auto make = [&](const std::string& content) {
    return MadeDump().entry(record, "null").record(record, content).build();
  };
  const auto reason = [&](const std::string& ours, const std::string& theirs,
                          const MatchOptions& options = {}) {
    const Graph target = make(ours), golden = make(theirs);
    return unmatched_reason(target, golden, options, target.find(record), false);
  };
  const std::string one = R"("output":[)" + MadeTensor().json() + "]";
  const std::string two = R"("output":[)" + MadeTensor().json() + "," + MadeTensor().json() + "]";
  const std::string wide = R"("output":[)" + of_shape("[7]").json() + "]";
  CHECK(reason(two, one) == "2 outputs here, 1 in the other run");
  CHECK(reason(wide, one) == "output 0 has the shape [7] here and [2, 3] in the other run");
  CHECK(reason(R"("input_args":[null])", R"("input_args":[{"type":"int","value":1}])") ==
        "input 0 is none here and int in the other run");
  CHECK(has(reason(wide, one, kFuzzily), "has the shape [7]"));
  CHECK(has(reason(one, one, {.rule = MatchRule::kMapped, .check_shapes = true, .names = {}}), "mapping"));
  const Graph target = make(one), empty = MadeDump().entry("optimizer", "null").build();
  CHECK(unmatched_reason(target, empty, {}, target.find(record), false) ==
        "the reference has no node of this name");
}

// ---- Fuzzy

TEST_CASE("match_nodes: fuzzy matching pairs modules by name, calls in them by their order") {
  const Graph target = MadeDump()
                           .call("Torch.mm.4.forward", "Module.a.A.forward.0")
                           .call("Torch.add.9.forward", "Module.a.A.forward.0")
                           .call("Torch.mm.5.forward", "Module.a.A.forward.0")
                           .call("Torch.mm.6.forward", "Module.a.A.forward.0")
                           .call("Module.a.A.forward.0")
                           .build();
  const Graph golden = MadeDump()
                           .call("Torch.mm.0.forward", "Module.a.A.forward.0")
                           .call("Torch.mm_rank3.1.forward", "Module.a.A.forward.0")
                           .call("Torch.sub.0.forward", "Module.a.A.forward.0")
                           .call("Module.a.A.forward.0", "Module.Model.forward.0")
                           .call("Module.Model.forward.0")
                           .build();
  CHECK(matched(target, golden, kFuzzily) == Matched{{"Module.a.A.forward.0", "Module.a.A.forward.0"},
                                                     {"Torch.mm.4.forward", "Torch.mm.0.forward"},
                                                     {"Torch.mm.5.forward", "Torch.mm_rank3.1.forward"}});
  CHECK(unmatched_reason(target, golden, kFuzzily, target.find("Torch.add.9.forward"), false) ==
        "the reference has no node of this name");
}

TEST_CASE("match_nodes: fuzzy matching looks at shapes, unless told not to") {
  const auto make = [](const std::string& module, const std::string& call) {
    return MadeDump()
        .call("Torch.mm.0.forward", "Module.a.A.forward.0", of_shape(call))
        .call("Module.a.A.forward.0", {}, of_shape(module))
        .build();
  };
  const Graph golden = make("[2]", "[2]");
  CHECK(matched(make("[2]", "[4]"), golden, kFuzzily) == same({"Module.a.A.forward.0"}));
  CHECK(matched(make("[4]", "[2]"), golden, kFuzzily).empty());
  const MatchOptions blind = {.rule = MatchRule::kFuzzy, .check_shapes = false, .names = {}};
  CHECK(matched(make("[4]", "[4]"), golden, blind) == same({"Module.a.A.forward.0", "Torch.mm.0.forward"}));
}

TEST_CASE("match_nodes: fuzzy matching compares as many inputs as both have, of any type") {
  const auto make = [](const std::string& inputs) {
    return MadeDump()
        .entry("Module.a.A.forward.0", "null")
        .record("Module.a.A.forward.0", R"("input_args":[)" + inputs + "]")
        .build();
  };
  const std::string tensor = MadeTensor().json();
  CHECK(matched(make(tensor), make(tensor + "," + tensor), kFuzzily).size() == 1);
  CHECK(matched(make(R"({"type":"int","value":1})"), make(R"({"type":"float","value":1.5})"), kFuzzily)
            .size() == 1);
}

// ---- Mapped

TEST_CASE("match_nodes: names that are mapped belong together, whatever they hold") {
  const Graph target = MadeDump()
                           .call("Module.emb.E.forward.0", {}, of_shape("[2]"))
                           .call("Module.same.S.forward.0")
                           .call("Module.never.N.forward.0")
                           .build();
  const Graph golden = MadeDump()
                           .call("Module.embedding.E.forward.0", {}, of_shape("[9]"))
                           .call("Module.same.S.forward.0")
                           .call("Module.never.N.forward.0")
                           .build();
  const MatchOptions options = {.rule = MatchRule::kMapped,
                                .check_shapes = true,
                                .names = {{"Module.emb.E.forward.0", "Module.embedding.E.forward.0"},
                                          {"Module.never.N.forward.0", "N/A"}}};
  CHECK(matched(target, golden, options) ==
        Matched{{"Module.emb.E.forward.0", "Module.embedding.E.forward.0"},
                {"Module.same.S.forward.0", "Module.same.S.forward.0"}});
}

// ---- Alignment

TEST_CASE("align_nodes: a call more leaves the others with their counterparts") {
  const auto make = [](int calls) {
    MadeDump made;
    for (int i = 0; i < calls; ++i) {
      const std::string count = std::to_string(i);
      made.call("Torch.mm." + count + ".forward", "Module.a.A.forward.0");
      made.call("Torch.add." + count + ".forward", "Module.a.A.forward.0");
    }
    return made.call("Module.a.A.forward.0");
  };
  MadeDump ours;  // one mm more, at the beginning: all later ones are counted one further
  ours.call("Torch.mm.0.forward", "Module.a.A.forward.0")
      .call("Torch.mm.1.forward", "Module.a.A.forward.0")
      .call("Torch.add.0.forward", "Module.a.A.forward.0")
      .call("Torch.mm.2.forward", "Module.a.A.forward.0")
      .call("Torch.add.1.forward", "Module.a.A.forward.0")
      .call("Module.a.A.forward.0");
  const Graph target = ours.build(), golden = make(2).build();
  const NodeMatches matches = match_nodes(target, golden, {});
  const auto counterparts = align_nodes(target, golden, matches, MatchRule::kDefault);
  REQUIRE(counterparts.size() == target.nodes().size());
  const auto of = [&](std::string_view name) {
    const Counterpart& one = counterparts[target.find(name)];
    return one.node == kNoNode
               ? std::string("none")
               : std::string(golden[one.node].name) + " " + std::string(trace::match_name(one.how));
  };
  CHECK(of("Module.a.A.forward.0") == "Module.a.A.forward.0 exact");
  CHECK(of("Torch.add.1.forward") == "Torch.add.1.forward exact");
  CHECK(of("Torch.mm.2.forward") == "Torch.mm.1.forward aligned");
  // The rule of the existing tool pairs by name: mm.1 with mm.1.
  CHECK(golden[matches.of_target[target.find("Torch.mm.1.forward")]].name == "Torch.mm.1.forward");
  CHECK(matches.of_target[target.find("Torch.mm.2.forward")] == kNoNode);
}

TEST_CASE("align_nodes: a call in another module has moved") {
  const auto make = [](const std::string& module) {
    return MadeDump()
        .call("Torch.mm.0.forward", "Module." + module + ".X.forward.0")
        .call("Torch.other.0.forward", "Module.b.X.forward.0")
        .call("Module.a.X.forward.0")
        .call("Module.b.X.forward.0")
        .build();
  };
  const Graph target = make("a"), golden = make("b");
  const NodeMatches matches = match_nodes(target, golden, {});
  const NodeId node = target.find("Torch.mm.0.forward");
  CHECK(matches.of_target[node] == kNoNode);
  const Counterpart found = align_nodes(target, golden, matches, MatchRule::kDefault)[node];
  REQUIRE(found.node != kNoNode);
  CHECK(golden[found.node].name == "Torch.mm.0.forward");
  CHECK(found.how == trace::MatchKind::kMoved);
}

TEST_CASE("align_nodes: with another rule than the default the match is the counterpart") {
  const Graph target =
      MadeDump().call("Torch.mm.3.forward", "Module.a.A.forward.0").call("Module.a.A.forward.0").build();
  const Graph golden =
      MadeDump().call("Torch.mm.0.forward", "Module.a.A.forward.0").call("Module.a.A.forward.0").build();
  const NodeMatches matches = match_nodes(target, golden, kFuzzily);
  const auto found = align_nodes(target, golden, matches, MatchRule::kFuzzy);
  CHECK(found[target.find("Torch.mm.3.forward")].how == trace::MatchKind::kFuzzy);
  CHECK(found[target.find("Module.a.A.forward.0")].how == trace::MatchKind::kExact);
}

// ---- Micro steps of the reference

TEST_CASE("follow_micro_steps: the reference counts as the target does") {
  const Graph target = MadeDump()
                           .call("Module.a.A.forward.0")
                           .call("Module.a.A.backward.0")
                           .call("Module.a.A.forward.1")
                           .call("Torch.x.0.forward", "Module.a.A.forward.1")
                           .build();
  Graph golden = MadeDump()
                     .call("Module.a.A.forward.1")
                     .call("Torch.x.0.forward", "Module.a.A.forward.1")
                     .call("Module.only.O.forward.7")
                     .call("Module.word.W.forward")
                     .build();
  follow_micro_steps(target, golden, match_nodes(target, golden, {}));
  const auto step = [&](std::string_view name) { return golden[golden.find(name)].micro_step; };
  CHECK(step("Module.a.A.forward.1") == 1);
  CHECK(step("Torch.x.0.forward") == 1);
  CHECK(step("Module.only.O.forward.7") == 7);
  CHECK(step("Module.word.W.forward") == 0);
}

// ---- Judging

TEST_CASE("common_mode: what both dumps allow") {
  const auto mode = [](const std::string& ours, const std::string& theirs, const std::string& our_md5 = {},
                       const std::string& their_md5 = {}) {
    MadeTensor a, b;
    a.more = our_md5, b.more = their_md5;
    const auto target = MadeDump(ours).call("Torch.x.0.forward", {}, a, a).read();
    const auto golden = MadeDump(theirs).call("Torch.x.0.forward", {}, b, b).read();
    return common_mode(target->trace, golden->trace);
  };
  const std::string md5 = R"(,"md5":"0a0b0c0d")";
  CHECK(mode("statistics", "statistics") == Mode::kStatistics);
  CHECK(mode("statistics", "statistics", md5, md5) == Mode::kMd5);
  CHECK(mode("tensor", "tensor") == Mode::kRealData);
  CHECK(mode("structure", "structure") == Mode::kStructure);
  CHECK(has(problem_of<InvalidArgument>([&] { mode("tensor", "statistics"); }),
            R"("tensor" and "statistics", expected the same)"));
  CHECK(has(problem_of<InvalidArgument>([&] { mode("statistics", "statistics", md5); }),
            "only the first one has checksums"));
  CHECK(has(problem_of<InvalidArgument>([&] { mode("acc", "acc"); }), R"("acc")"));
}

TEST_CASE("compare: the index is the largest relative error of an output, at most 1") {
  MadeTensor golden, target;
  target.mean = "0.113";  // 0.1
  CHECK(judge(golden, golden)["Torch.x.0.forward"].index == 0);
  CHECK(*judge(target, golden)["Torch.x.0.forward"].index == Approx(0.13));
  target.max = "1.5";  // 1.0
  CHECK(*judge(target, golden)["Torch.x.0.forward"].index == Approx(0.5));
  target.norm = "20.0";  // 2.0
  const Judged judged = judge(target, golden);
  CHECK(judged["Torch.x.0.forward"].index == 1);
  CHECK(judged["Torch.x.0.forward"].index_is_whole);
}

TEST_CASE(
    "compare: of NaN and infinities the index is 1, but not of equal infinities; of a reference of 0 it is "
    "0") {
  MadeTensor golden, target;
  for (const char* const bad : {"NaN", "Infinity", "-Infinity"}) {
    CAPTURE(bad);
    target = {};
    target.max = bad;
    const Judged judged = judge(target, golden);
    CHECK(judged["Torch.x.0.forward"].index == 1);
    CHECK(judged["Torch.x.0.forward"].output_ulps == kInfinity);
    // Where the reference is as bad nothing differs: a mask writes infinities. A NaN is told all the same.
    const Judged both = judge(target, target);
    CHECK(both["Torch.x.0.forward"].index == (std::string_view(bad) == "NaN" ? 1 : 0));
    CHECK(both["Torch.x.0.forward"].output_ulps == 0);
  }
  golden.mean = "0.0";
  target = {};
  CHECK(judge(target, golden)["Torch.x.0.forward"].index == 0);
  // NaN in the mean or norm alone is none for the index, and a difference for the distance.
  golden = {}, target = {};
  target.norm = "NaN";
  CHECK(judge(target, golden)["Torch.x.0.forward"].index == 0);
  CHECK(judge(target, golden)["Torch.x.0.forward"].output_ulps == kInfinity);
}

TEST_CASE("compare: a mean close to zero raises the index, but not the distance") {
  MadeTensor golden, target;
  golden.mean = "1e-9", target.mean = "-3e-9";
  const Judged judged = judge(target, golden);
  CHECK(judged["Torch.x.0.forward"].index == 1);
  REQUIRE(judged["Torch.x.0.forward"].output_ulps);
  CHECK(*judged["Torch.x.0.forward"].output_ulps == 0);  // another order of the sum makes as much
}

TEST_CASE("compare: inputs, weights and gradients have distances of their own") {
  const auto make = [](const std::string& input, const std::string& weight, const std::string& gradient) {
    MadeTensor in, parameter, grad;
    in.max = input, parameter.max = weight, grad.max = gradient;
    return MadeDump()
        .entry("Module.fc.L.forward.0", "null")
        .entry("Module.fc.L.backward.0", "null")
        .record("Module.fc.L.forward.0", R"("input_args":[)" + in.json() + R"(],"output":[)" +
                                             MadeTensor().json() + R"(],"parameters":{"weight":)" +
                                             parameter.json() + "}")
        .record("Module.fc.L.backward.0", R"("input":[)" + in.json() + "]")
        .record("Module.fc.L.parameters_grad", R"("weight":[)" + grad.json() + "]");
  };
  const MadeDump golden = make("1.0", "1.0", "1.0");
  const Judged of_weight(make("1.0", "2.0", "1.0"), golden);
  const NodeVerdict& module = of_weight["Module.fc.L.forward.0"];
  CHECK(module.index == 0);  // of the existing tool, which looks at outputs only
  CHECK(module.input_ulps == 0);
  CHECK(module.output_ulps == 0);
  CHECK(*module.weight_ulps > 1000);
  CHECK_FALSE(module.gradient_ulps);
  const Judged of_gradient(make("1.0", "1.0", "2.0"), golden);
  const NodeVerdict& gradients = of_gradient["Module.fc.L.parameters_grad"];
  CHECK(gradients.index == 0);
  CHECK(*gradients.gradient_ulps > 1000);
  CHECK_FALSE(gradients.input_ulps);
  // What is worst below a collapsed module.
  const auto aggregates = aggregate(of_gradient.target, &of_gradient.comparison, false);
  const Aggregate& below = aggregates[of_gradient.target.find("Module.fc.L.backward.0")];
  CHECK(of_gradient.target[below.worst_node].name == "Module.fc.L.parameters_grad");
  CHECK((below.nodes == 2 && below.unmatched == 0));
  const Judged of_input(make("2.0", "1.0", "1.0"), golden);
  CHECK(*of_input["Module.fc.L.forward.0"].input_ulps > 1000);
  CHECK(of_input["Module.fc.L.forward.0"].weight_ulps == 0);
}

TEST_CASE("compare: of checksums 1 is good") {
  MadeTensor golden, target;
  golden.more = R"(,"md5":"00000001")", target.more = R"(,"md5":"00000002")";
  CHECK(judge(golden, golden)["Torch.x.0.forward"].index == 1);
  const Judged judged = judge(target, golden);
  CHECK(judged.comparison.mode == Mode::kMd5);
  CHECK(judged["Torch.x.0.forward"].index == 0);
  CHECK(*judged["Torch.x.0.forward"].output_ulps > 0);
}

TEST_CASE("compare: nodes without a match, without data, and the root have no index") {
  const MadeDump ours = MadeDump().call("Torch.x.0.forward").entry("optimizer", "null");
  const MadeDump theirs = MadeDump().call("Torch.y.0.forward").entry("optimizer", "null");
  const Judged judged(ours, theirs);
  CHECK_FALSE(judged["Torch.x.0.forward"].index);
  CHECK_FALSE(judged["optimizer"].index);
  CHECK_FALSE(judged["DefaultModel"].index);
}

TEST_CASE("compare: what an operator leaves uninitialized is not judged") {
  MadeTensor golden, target;
  target.max = "NaN";
  const Judged judged(MadeDump().call("Torch.empty_like.0.forward", {}, target),
                      MadeDump().call("Torch.empty_like.0.forward", {}, golden));
  CHECK(judged["Torch.empty_like.0.forward"].index == 0);
  CHECK_FALSE(judged["Torch.empty_like.0.forward"].output_ulps);
}

TEST_CASE("compare: a collection is as bad as its worst call") {
  MadeTensor bad;
  bad.max = "1.25";
  const MadeDump ours =
      MadeDump().call("Torch.x.0.forward").call("Torch.y.0.forward", {}, bad).call("Torch.new.0.forward");
  const MadeDump theirs = MadeDump().call("Torch.x.0.forward").call("Torch.y.0.forward");
  CHECK(*Judged(ours, theirs)["Apis_Between_Modules.0"].index == Approx(0.25));
}

TEST_CASE("compare: structures are matched, not judged") {
  MadeTensor bad;
  bad.max = "NaN";
  const Judged judged = judge(bad, {}, "structure");
  CHECK(judged.comparison.mode == Mode::kStructure);
  CHECK_FALSE(judged["Torch.x.0.forward"].index);
  CHECK_FALSE(judged["Torch.x.0.forward"].output_ulps);
}

TEST_CASE("aggregate: counts what a collapsed module hides") {
  MadeTensor off, worse;
  off.max = "1.3", worse.max = "1.9";
  const MadeDump ours = MadeDump()
                            .call("Torch.x.0.forward", "Module.a.A.forward.0", off)
                            .call("Torch.y.0.forward", "Module.a.A.forward.0", worse)
                            .call("Torch.new.0.forward", "Module.a.A.forward.0")
                            .call("Module.a.A.forward.0");
  const MadeDump theirs = MadeDump()
                              .call("Torch.x.0.forward", "Module.a.A.forward.0")
                              .call("Torch.y.0.forward", "Module.a.A.forward.0")
                              .call("Torch.gone.0.forward", "Module.a.A.forward.0")
                              .call("Module.a.A.forward.0");
  const Judged judged(ours, theirs);
  const auto all = aggregate(judged.target, &judged.comparison, false);
  const Aggregate& module = all[judged.target.find("Module.a.A.forward.0")];
  CHECK((module.nodes == 4 && module.unmatched == 1));
  CHECK(judged.target[module.worst_node].name == "Torch.y.0.forward");
  CHECK(*module.worst_index == Approx(0.9));
  CHECK(module.colours == std::array<std::uint32_t, kMostColours>{1, 1, 0, 0, 1});
  const auto golden = aggregate(judged.golden, &judged.comparison, true);
  CHECK(golden[Graph::kRoot].unmatched == 1);
  CHECK_FALSE(golden[Graph::kRoot].worst_ulps);
  CHECK(aggregate(judged.target, nullptr, false)[Graph::kRoot].nodes == 5);
}

TEST_CASE("compare: any number of threads gives the same") {
  const auto make = [](int seed) {
    MadeDump made;
    for (int i = 0; i < 3000; ++i) {
      MadeTensor output;
      output.mean = std::to_string((i * 7919 % 1000 + seed * (i % 13)) / 1000.0);
      made.call("Torch.x." + std::to_string(i) + ".forward", "Module.a.A.forward.0", output);
    }
    return made.call("Module.a.A.forward.0");
  };
  const Graph target = make(1).build();
  Graph golden = make(0).build();
  const Comparison one = compare(target, golden, {.match = {}, .threads = 1});
  const Comparison four = compare(target, golden, {.match = {}, .threads = 4});
  REQUIRE(one.verdicts.size() == four.verdicts.size());
  for (std::size_t i = 0; i < one.verdicts.size(); ++i) {
    CHECK(one.verdicts[i].index == four.verdicts[i].index);
    CHECK(one.verdicts[i].output_ulps == four.verdicts[i].output_ulps);
  }
}

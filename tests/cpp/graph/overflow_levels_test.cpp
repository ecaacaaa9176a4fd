// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/overflow_levels.h"

#include "catch.h"
#include "graph/table.h"

using namespace msprobe;
using namespace msprobe::graph;
using Level = OverflowLevel;

namespace {

const std::string kOverflowData = MSPROBE_TEST_DATA "/graph/overflow/";

// The level of one record, whose JSON is given.
Level level(const std::string& name, const std::string& record) {
  const auto levels =
      overflow_levels(trace::parse_trace(R"({"data":{")" + name + "\":" + record + "}}", "dump.json"));
  REQUIRE(levels.size() == 1);
  return levels[0];
}

std::string tensor(const std::string& statistic, const std::string& value) {
  return R"({"type":"torch.Tensor","dtype":"torch.float32","shape":[2],")" + statistic + "\":" + value + "}";
}
const std::string kGood = tensor("Max", "1.0"), kBad = tensor("Max", "NaN");

std::string call(const std::string& args, const std::string& output, const std::string& kwargs = "") {
  return R"({"input_args":[)" + args + R"(],"input_kwargs":{)" + kwargs + R"(},"output":[)" + output + "]}";
}

std::string norm(const std::string& value) { return tensor("Norm", value); }

}  // namespace

TEST_CASE("overflow levels: a real run with a NaN in a weight") {
  const trace::Trace trace = trace::read_trace(kOverflowData + "dump.json");
  const auto levels = overflow_levels(trace);
  const auto expected = test::read_table(kOverflowData + "levels.tsv");
  REQUIRE(levels.size() == expected.size());
  static const char* const kNames[] = {"", "medium", "high", "critical"};
  for (std::size_t i = 0; i < levels.size(); ++i) {
    CAPTURE(expected[i][0]);
    REQUIRE(trace.name(trace.records()[i]) == expected[i][0]);
    CHECK(kNames[static_cast<int>(levels[i])] == expected[i][1]);
  }
}

TEST_CASE("overflow levels: what goes in and what comes out") {
  CHECK(level("Torch.add.0.forward", call(kGood, kGood)) == Level::kNone);
  CHECK(level("Torch.add.0.forward", call(kGood, kBad)) == Level::kCritical);
  CHECK(level("Torch.add.0.forward", call(kBad, kBad)) == Level::kHigh);
  CHECK(level("Torch.add.0.forward", call(kBad, kGood)) == Level::kMedium);
  CHECK(level("Torch.add.0.forward", call(kGood, kBad, "\"other\":" + kBad)) == Level::kHigh);
  CHECK(level("Torch.add.0.backward", R"({"input":[)" + kBad + R"(],"output":[)" + kBad + "]}") ==
        Level::kHigh);
  CHECK(level("Module.a.Linear.forward.0", R"({"input_args":[)" + kGood + R"(],"parameters":{"weight":)" +
                                               kBad + R"(},"output":[)" + kBad + "]}") == Level::kCritical);
  CHECK(level("Module.a.Linear.parameters_grad", R"({"weight":[)" + kBad + "]}") == Level::kNone);
}

TEST_CASE("overflow levels: which values are bad") {
  for (const char* statistic : {"Max", "Min", "Mean"}) {
    for (const char* value : {"NaN", "Infinity", "-Infinity", "\"nan\"", "\"inf\"", "\"-inf\""}) {
      CAPTURE(statistic, value);
      CHECK(level("Torch.add.0.forward", call(kGood, tensor(statistic, value))) == Level::kCritical);
    }
  }
  CHECK(level("Torch.add.0.forward", call(kGood, norm("NaN"))) == Level::kNone);
  CHECK(level("Torch.add.0.forward", call(kGood, R"({"type":"float","value":NaN})")) == Level::kNone);
  CHECK(level("Torch.add.0.forward", call(kGood, "[" + kGood + ",[" + kBad + "]]")) == Level::kCritical);
  CHECK(level("Torch.add.0.forward", call(kGood, R"({"hidden":)" + kBad + "}")) == Level::kNone);
  CHECK(level("Torch.add.0.forward", call("", kGood, "\"tensors\":[" + kBad + "]")) == Level::kMedium);
  CHECK(level("Torch.add.0.forward", call("", kGood, R"("options":{"mask":)" + kBad + "}")) == Level::kNone);
}

TEST_CASE("overflow levels: an output that is far larger than the input") {
  CHECK(level("Torch.mul.0.forward", call(norm("1.0"), norm("100.0"))) == Level::kNone);
  CHECK(level("Torch.mul.0.forward", call(norm("1.0"), norm("100.5"))) == Level::kHigh);
  CHECK(level("Torch.mul.0.forward", call(norm("0.0"), norm("100.0"))) == Level::kNone);
  CHECK(level("Torch.mul.0.forward", call(norm("0.0"), norm("101"))) == Level::kHigh);
  CHECK(level("Torch.mul.0.forward", call(norm("NaN") + "," + norm("1.0"), norm("101.0"))) == Level::kHigh);
  CHECK(level("Torch.mul.0.forward", call(norm("1.0") + "," + norm("2.0"), norm("101.0"))) == Level::kNone);
  CHECK(level("Torch.mul.0.forward", call(norm("1.0"), norm("101.0"), "\"other\":" + norm("2.0"))) ==
        Level::kNone);
  CHECK(level("Torch.mul.0.forward", call("[" + norm("9.0") + "]," + norm("1.0"), norm("101.0"))) ==
        Level::kHigh);
  CHECK(level("Torch.mul.0.forward", call(norm("NaN"), norm("1e9"))) == Level::kNone);
  CHECK(level("Torch.ones.0.forward", call("", norm("1e9"))) == Level::kNone);
}

TEST_CASE("overflow levels: memory that was not written yet is excused") {
  CHECK(level("Torch.empty.0.forward", call("", kBad)) == Level::kNone);
  CHECK(level("Torch.empty_like.0.forward", call(kBad, kBad)) == Level::kNone);
  CHECK(level("Torch.empty.0.forward", call("", kGood + "," + kBad)) == Level::kCritical);
  CHECK(level("Distributed.recv.0.forward", call(kBad, kGood)) == Level::kNone);
  CHECK(level("Distributed.recv.0.forward", call("", kGood, "\"tensor\":" + kBad)) == Level::kNone);
  CHECK(level("Distributed.recv.0.forward", call(kGood + "," + kBad, kGood)) == Level::kMedium);
  CHECK(level("Distributed.recv.0.forward", call("", kGood, "\"src\":" + kBad)) == Level::kMedium);
  CHECK(level("Distributed.all_gather.0.forward", call("[" + kGood + "," + kBad + "]", kBad)) ==
        Level::kNone);
  CHECK(level("Distributed.reduce_scatter.0.forward", call("", kBad, "\"output\":" + kBad)) == Level::kNone);
  CHECK(level("Distributed.all_reduce.0.forward", call(kBad, kBad)) == Level::kHigh);
}

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/effects.h"

#include <cmath>
#include <string>
#include <vector>

#include "catch.h"
#include "msprobe/step_walk.h"

using namespace msprobe;
using namespace msprobe::verdict;

namespace {

// A run of calls without modules.
trace::Trace run_of(int calls) {
  const std::string tensor =
      R"({"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 3], "Max": 1.0, "Min": 0.0, )"
      R"("Mean": 0.5, "Norm": 1.0})";
  std::string records;
  for (int i = 0; i < calls; ++i) {
    records += (i == 0 ? "" : ", ") + ("\"Functional.relu." + std::to_string(i)) +
               R"(.forward": {"input_args": [)" + tensor + R"(], "output": [)" + tensor + "]}";
  }
  return trace::parse_trace(R"({"task": "statistics", "level": "L1", "data": {)" + records + "}}",
                            "dump.json");
}

trace::DumpPair pair_of(int calls) {
  trace::DumpPair pair;
  pair.target = run_of(calls);
  pair.reference = run_of(calls);
  pair.records = trace::match_records(pair.target, nullptr, pair.reference, nullptr);
  pair.matches = trace::match_items(pair.target, pair.reference, pair.records);
  return pair;
}

}  // namespace

TEST_CASE("effects: without modules, what comes of a call is looked for in the next four") {
  const trace::DumpPair pair = pair_of(6);
  const auto distances = compare::distances(pair, {}, 1);
  const std::vector<trace::RealMetrics> none;
  const Model model;
  const Calls calls(model, pair, none, distances);
  Effects effects(calls);
  effects[4].visible = 5;
  CHECK(effects.around("", false, 0) == 0);
  CHECK(effects.around("", false, 1) == 5);
  CHECK(effects.around("", false, 4) == 5);
  CHECK(effects.around("", false, 5) == 0);
  CHECK(std::isinf(effects.around("", false, 6)));  // nothing follows
}

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// What all ranks have, as anything after an all-reduce.
#include <algorithm>
#include <ctime>
#include <limits>

#include "catch.h"
#include "msprobe/step_walk.h"
#include "verdict/steps.h"

namespace msprobe::compare {
namespace {

using steps::call;
using steps::number;
using steps::tensor;

// A module whose argument differs, and what follows from it, in each rank.
std::vector<StepWalk> in_all(int ranks) {
  const auto run = [](double given) {
    return steps::Run{
        call("Functional.gelu.0.forward", tensor() + ", " + number(given), tensor({given})) + ", " +
        call("Module.a.b.Gelu.forward.0", tensor() + ", " + number(given), tensor({given})) + ", " +
        call("Module.a.Mlp.forward.0", tensor() + ", " + number(given), tensor({given}))};
  };
  const StepWalk one = steps::walk(run(1.5), run(1));
  REQUIRE_FALSE(one.findings.empty());
  std::vector<StepWalk> walks(static_cast<std::size_t>(ranks), one);
  for (int rank = 0; rank < ranks; ++rank) {
    StepWalk& walk = walks[static_cast<std::size_t>(rank)];
    walk.rank = rank;
    for (Finding& finding : walk.findings) finding.rank = rank;
  }
  return walks;
}

std::clock_t work_of(const std::vector<StepWalk>& walks) {
  std::vector<const StepWalk*> all;
  for (const StepWalk& walk : walks) all.push_back(&walk);
  std::clock_t least = std::numeric_limits<std::clock_t>::max();
  for (int i = 0; i < 7; ++i) {
    const std::clock_t begin = std::clock();
    const Verdict verdict = judge(all);
    least = std::min(least, std::clock() - begin);
    REQUIRE_FALSE(verdict.culprits.empty());
  }
  return least;
}

TEST_CASE("verdict: its work grows with the ranks, not with their square") {
  // 8 times the ranks: 8 times the work where it is linear, and more as they leave the cache; 64 where each
  // is held against each.
  const std::clock_t few = work_of(in_all(1024)), many = work_of(in_all(8 * 1024));
  CAPTURE(few, many);
  CHECK(many < 40 * few);
}

}  // namespace
}  // namespace msprobe::compare

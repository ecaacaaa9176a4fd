// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <string>

#include "catch.h"
#include "msprobe/step_walk.h"
#include "msprobe/verdict.h"

using msprobe::compare::Finding;
using msprobe::compare::judge;
using msprobe::compare::StepWalk;
using msprobe::compare::Verdict;

namespace {

/// An argument that differs. `effect`: how far off what comes of it is, in what it may be.
StepWalk step_with_argument(int step, const std::string& name, double effect) {
  Finding finding;
  finding.kind = msprobe::compare::FindingKind::kArgument;
  finding.step = step;
  finding.name = name;
  finding.effect = effect;
  finding.because.push_back({msprobe::compare::Reason::kFirstInput, {name}});
  StepWalk walk;
  walk.step = step;
  walk.findings.push_back(finding);
  return walk;
}

Verdict verdict_of(const StepWalk& first, const StepWalk& second) {
  const std::array walks{&first, &second};
  return judge(walks);
}

}  // namespace

TEST_CASE("what is a cause at one step is not said to have no consequence at the next") {
  const Verdict verdict = verdict_of(step_with_argument(1, "eps", 8), step_with_argument(2, "eps", 0.5));
  REQUIRE(verdict.culprits.size() == 1);
  CHECK(verdict.notes.empty());
}

TEST_CASE("an argument without an effect is a note beside another that is the cause") {
  const Verdict verdict = verdict_of(step_with_argument(1, "eps", 8), step_with_argument(2, "flag", 0.5));
  REQUIRE(verdict.culprits.size() == 1);
  REQUIRE(verdict.notes.size() == 1);
  CHECK(text_of(verdict.notes.front()).starts_with("flag,"));
}

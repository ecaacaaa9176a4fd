// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <initializer_list>
#include <string>
#include <utility>

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

/// Places of one step that are so many times beyond their tolerances, of so many that differ.
Verdict verdict_of(std::initializer_list<double> strengths, std::uint64_t differing) {
  StepWalk walk;
  walk.differing = differing;
  for (const double strength : strengths) {
    Finding& finding = walk.findings.emplace_back();
    finding.name = "place " + std::to_string(walk.findings.size());
    finding.strength = strength;
    finding.distance.low = 1e-3;
    finding.because.push_back({msprobe::compare::Reason::kResult, {finding.name}});
  }
  const std::array walks{&std::as_const(walk)};
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

TEST_CASE("of many places one is beyond its tolerance by chance, and a single one is not") {
  CHECK(verdict_of({1.1}, 1).culprits.size() == 1);
  // exp(-(3 s)^2 / 2) times 1000 is exp(-3^2 / 2) at s = 1.592.
  CHECK(verdict_of({1.6}, 1000).culprits.size() == 1);
  const Verdict verdict = verdict_of({1.58}, 1000);
  CHECK(verdict.status == msprobe::compare::Status::kRounding);
  REQUIRE(verdict.notes.size() == 1);
  CHECK(text_of(verdict.notes.front()).ends_with("than one of 1000 differing values is by chance"));
}

TEST_CASE("the first place that is suspect is the cause where another one is beyond chance") {
  const Verdict verdict = verdict_of({1.1, 9}, 1000);
  REQUIRE(verdict.culprits.size() == 2);
  CHECK(verdict.culprits.front().name == "place 1");
}

TEST_CASE("of calls that clip or step the training state tells, where there is one") {
  for (const auto phase : {msprobe::compare::Phase::kClipping, msprobe::compare::Phase::kUpdate}) {
    StepWalk walk = step_with_argument(0, "max", 8);
    walk.findings.front().phase = phase;
    walk.findings.front().distance = msprobe::metrics::Distance::unmeasurable();
    walk.differing = 1;
    const std::array walks{&std::as_const(walk)};
    CHECK(judge(walks).culprits.size() == 1);
    walk.has_state = true;
    CHECK(judge(walks).culprits.empty());
  }
}

TEST_CASE("of calls between backward and the optimizer their effect tells, where no backward pass was seen") {
  StepWalk walk = step_with_argument(0, "max", 8);
  walk.findings.front().phase = msprobe::compare::Phase::kReduction;
  walk.findings.front().distance = msprobe::metrics::Distance::unmeasurable();
  walk.differing = 1;
  walk.has_state = true;
  const std::array walks{&std::as_const(walk)};
  CHECK(judge(walks).culprits.size() == 1);
  walk.has_gradients = true;
  CHECK(judge(walks).culprits.empty());
}

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "catch.h"
#include "grad_probe/sample.h"
#include "msprobe/grad_probe.h"

namespace msprobe::grad_probe {
namespace {

using Kind = Finding::Kind;
using State = Similarity::State;

// Of 1000 elements.
Similarity share(std::int64_t equal) { return {State::kCompared, equal, 1000, {}}; }

// One parameter over the steps 0, 1, 2, ...
std::vector<Finding> judge_row(std::vector<Similarity> cells, const Rule& rule = {}) {
  Comparison comparison;
  comparison.names = {"w"};
  for (std::size_t i = 0; i < cells.size(); ++i) comparison.steps.push_back(static_cast<std::int64_t>(i));
  comparison.cells = std::move(cells);
  return judge(comparison, rule);
}

TEST_CASE("judge: agreement gives no finding") {
  CHECK(judge_row({share(1000), share(1000)}).empty());
  CHECK(judge_row({share(970), share(940), share(910), share(1000)}).empty());
  CHECK(judge_row({}).empty());
}

TEST_CASE("judge: low at the first step") {
  const auto findings = judge_row({share(969), share(969)});
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].kind == Kind::kLowAtFirstStep);
  CHECK(findings[0].name == "w");
  CHECK(findings[0].step == 0);
  CHECK(findings[0].similarity == 0.969);
  CHECK(std::isnan(findings[0].previous));
  CHECK(
      findings[0].reason ==
      "w: at step 0, the first compared, the signs agree for 0.969 of the elements, expected at least 0.97");
}

TEST_CASE("judge: a drop against the step before") {
  const auto findings = judge_row({share(1000), share(969), share(960)});
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].kind == Kind::kDrop);
  CHECK(findings[0].step == 1);
  CHECK(findings[0].similarity == 0.969);
  CHECK(findings[0].previous == 1.0);
  CHECK(findings[0].reason ==
        "w: at step 1 the signs agree for 0.969 of the elements, after 1 at step 0, expected a fall of at "
        "most 0.03");
}

TEST_CASE("judge: exactly the limits are allowed, whatever the rounding of the subtraction") {
  for (std::int64_t equal = 1000; equal >= 30; --equal) {
    CHECK(judge_row({share(equal), share(equal - 30)}, {0.0, 0.03}).empty());
    CHECK(judge_row({share(equal), share(equal - 31 < 0 ? 0 : equal - 31)}, {0.0, 0.03}).size() ==
          (equal >= 31 ? 1U : 0U));
  }
  CHECK(judge_row({share(970)}).empty());
}

TEST_CASE("judge: steps without the parameter are passed over") {
  CHECK(judge_row({kAbsent, kAbsent}).empty());
  const auto late = judge_row({kAbsent, share(900), kAbsent, share(800)});
  REQUIRE(late.size() == 2);
  CHECK(late[0].kind == Kind::kLowAtFirstStep);
  CHECK(late[0].step == 1);
  CHECK(late[1].kind == Kind::kDrop);
  CHECK(late[1].step == 3);
  CHECK(late[1].previous == 0.9);
  CHECK(late[1].reason.find("after 0.9 at step 1") != std::string::npos);
}

TEST_CASE("judge: what could not be compared is a finding with its problem") {
  const auto findings = judge_row({share(1000), kMissing, share(900)});
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].kind == Kind::kMissing);
  CHECK(findings[0].step == 1);
  CHECK(std::isnan(findings[0].similarity));
  CHECK(findings[0].previous == 1.0);
  CHECK(findings[0].reason == "w: at step 1 nothing can be compared: the file is lost");
  CHECK(findings[1].kind == Kind::kDrop);
  CHECK(findings[1].previous == 1.0);
}

TEST_CASE("judge: an empty tensor is neither low nor a step to fall from") {
  const Similarity empty{State::kCompared, 0, 0, {}};
  CHECK(judge_row({empty, share(1000), empty, share(990)}).empty());
}

TEST_CASE("judge: ordered by step, then by how far the similarity fell, the uncomparable last") {
  Comparison comparison;
  comparison.steps = {5, 6};
  comparison.names = {"lost", "small", "large", "low", "equal to small"};
  comparison.cells = {kMissing,    share(1000),  //
                      share(1000), share(900),   //
                      share(1000), share(500),   //
                      share(200),  share(200),   //
                      share(1000), share(900)};
  std::vector<std::string> order;
  for (const Finding& finding : judge(comparison))
    order.push_back(finding.name + std::to_string(finding.step));
  CHECK(order == std::vector<std::string>{"low5", "lost5", "large6", "small6", "equal to small6"});
}

TEST_CASE("judge: the rule can be changed") {
  CHECK(judge_row({share(800), share(700)}, {0.5, 0.2}).empty());
  CHECK(judge_row({share(990), share(985)}, {0.999, 0.001}).size() == 2);
}

}  // namespace
}  // namespace msprobe::grad_probe

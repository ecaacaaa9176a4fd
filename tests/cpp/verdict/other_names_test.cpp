// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/other_names.h"

#include <algorithm>
#include <string>

#include "catch.h"
#include "msprobe/verdict.h"
#include "verdict/steps.h"

using namespace msprobe;
using steps::entry;
using steps::walk;
using Names = std::map<std::string, std::string>;

namespace {

std::string parameters(const std::string& entries) { return R"("parameters": {)" + entries + "}"; }

Names names_of(const std::string& target, const std::string& reference) {
  const auto a = steps::state_of({"", parameters(target)}), b = steps::state_of({"", parameters(reference)});
  return verdict::other_names(a->root, b->root);
}

}  // namespace

TEST_CASE("other names: parameters are paired by value, and the modules that hold them go with them") {
  CHECK(names_of(R"("a.up.w": )" + entry({2}) + R"(, "b.w": )" + entry({1}),
                 R"("b.w": )" + entry({1}) + R"(, "c.up.w": )" + entry({2})) ==
        Names{{"c.up.w", "a.up.w"}, {"c.up", "a.up"}, {"c", "a"}});
  // The order in the model decides between equal ones.
  CHECK(names_of(R"("a": )" + entry() + R"(, "b": )" + entry(),
                 R"("c": )" + entry() + R"(, "d": )" + entry()) == Names{{"c", "a"}, {"d", "b"}});
}

TEST_CASE("other names: other values are paired by place, where the same shapes are left") {
  CHECK(names_of(R"("a": )" + entry({2}), R"("b": )" + entry({3})) == Names{{"b", "a"}});
  CHECK(names_of(R"("a": )" + entry({2, "float64"}), R"("b": )" + entry({3})).empty());
  CHECK(names_of(R"("a": )" + entry({2}) + R"(, "c": )" + entry({4}), R"("b": )" + entry({3})).empty());
  CHECK(names_of(R"("a": )" + entry(), R"("a": )" + entry()).empty());
}

TEST_CASE("other names: a renamed run follows its reference, with a note, and its faults are found") {
  const auto run = [](const std::string& name, const std::string& rate) {
    const std::string made = R"({")" + name + R"(": )" + entry({5}) + "}";
    return steps::Run{"", parameters('"' + name + "\": " + entry({2})) +
                              R"(, "backward": [{"after_reduction": )" + made +
                              R"(}], "gradients_at_optimizer": [{"gradients": )" + made +
                              R"(}], "optimizer": [{"class": "A", "groups": [{"hyper": {"lr": )" + rate +
                              R"(}, "parameters": [")" + name + R"("]}]}])"};
  };
  const compare::StepWalk same = walk(run("new.w", "0.1"), run("old.w", "0.1"));
  CHECK(same.gradients_agree());
  const compare::StepWalk* const one = &same;
  const compare::Verdict verdict = compare::judge({&one, 1});
  CHECK(verdict.culprits.empty());
  REQUIRE(verdict.notes.size() == 1);
  CHECK_THAT(text_of(verdict.notes.front()), Catch::Matchers::Contains("(reference: old"));
  const compare::StepWalk other = walk(run("new.w", "0.1"), run("old.w", "0.2"));
  REQUIRE(other.findings.size() == 2);
  CHECK(other.findings.back().name == "optimizer.groups.0.lr");
}

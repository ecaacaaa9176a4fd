// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/reasons.h"

#include <algorithm>
#include <set>
#include <string>

#include "catch.h"
#include "msprobe/verdict.h"

using namespace msprobe::compare;

namespace {

Finding finding(FindingKind kind, std::string name, std::string module = "blocks.0") {
  Finding one;
  one.kind = kind;
  one.name = std::move(name);
  one.module = std::move(module);
  return one;
}

}  // namespace

TEST_CASE("reasons: every one has a word of its own and a sentence in both languages about the same things") {
  std::set<std::string_view> words;
  for (int i = 0; i <= static_cast<int>(Reason::kMoreNotes); ++i) {
    const auto& row = msprobe::verdict::row_of(static_cast<Reason>(i));
    CAPTURE(row.id);
    CHECK(words.insert(row.id).second);
    CHECK_FALSE(row.english.empty());
    CHECK(std::any_of(row.chinese.begin(), row.chinese.end(),
                      [](char c) { return static_cast<unsigned char>(c) > 127; }));
    CHECK(std::count(row.english.begin(), row.english.end(), '{') ==
          std::count(row.chinese.begin(), row.chinese.end(), '{'));
  }
}

TEST_CASE("reasons: a sentence is made of its clauses and of what they are about") {
  const Because because = {{Reason::kResultOfEqual, {"f.0", "f.0.output.0"}}, {Reason::kRandom, {}}};
  CHECK(text_of(because) == "the inputs of f.0 agree, f.0.output.0 does not (a random operator)");
  CHECK(text_of(because, Language::kChinese) == "f.0 的输入一致,而 f.0.output.0 不一致(随机算子)");
  // What a name holds is no pattern, and what is missing stays empty.
  CHECK(text_of({{Reason::kMissingCall, {"{0} {1}"}}}) == "only the reference calls {0} {1}");
  CHECK(text_of({{Reason::kResultOfEqual, {"f"}}}) == "the inputs of f agree,  does not");
  CHECK(text_of({{Reason::kOnlyTargetHas, {"buffer", "x"}}}, Language::kChinese) == "只有调试侧有缓冲区 x");
}

TEST_CASE("plain words: modules by their paths, functions by their names, calls by their numbers") {
  Finding gelu = finding(FindingKind::kOperator, "Functional.gelu.3.backward");
  CHECK(plain_text(gelu, "model.py:30") ==
        "the backward of gelu in blocks.0 differs by more than its inputs explain, called at model.py:30");
  gelu.because = {{Reason::kResultOfEqual, {}}};
  CHECK(plain_text(gelu) == "the backward of gelu in blocks.0 gives another result for equal inputs");
  CHECK(plain_text(gelu, "m.py:3", Language::kChinese) ==
        "blocks.0 中的 gelu 的反向 在输入相同时给出不同的结果(调用处 m.py:3)");
  CHECK(plain_text(finding(FindingKind::kMissingCall, "Module.layers.0.rot.Rotary.forward.2", "layers.2"),
                   "m.py:3") == "only the reference calls layers.0.rot in layers.2 a third time at m.py:3");
  CHECK(plain_text(finding(FindingKind::kExtraCall, "Distributed.all_reduce.0.forward", "")) ==
        "only the target calls all_reduce");
  CHECK(plain_text(finding(FindingKind::kArgument, "Tensor.__add__.0.forward.input.1", "mlp")) ==
        "input 1 of add in mlp has another value");
  Finding eps = finding(FindingKind::kModuleAttribute, "norm.eps");
  eps.target_value = "0.10000000000000001";
  eps.reference_value = "1e-05";
  CHECK(plain_text(eps) == "norm.eps = 0.1 (reference: 1e-05)");
}

TEST_CASE("the sum says what came in, what is made of it, what is allowed and what was found") {
  Explanation sum;
  sum.rule = "operator";
  sum.sources = {{"f.0.input.0", 1e-3, 2}, {"f.0.input.1", 0, 2}};
  sum.own = 1e-6;
  sum.tolerance = 2.001e-3;
  sum.limit = 6.003e-3;
  Distance found;
  found.value = 0.02;
  found.low = 0.012;
  const std::string text = sum_text(sum, found);
  CHECK(text.find("f.0.input.0: off by 0.001 x 2 = 0.002\n") != text.npos);
  CHECK(text.find("f.0.input.1") == text.npos);
  CHECK(text.find("allowed: 0.002; suspect beyond 0.006\n") != text.npos);
  CHECK(text.find("found: 0.02, at least 0.012") != text.npos);
  CHECK(sum_text({}, found).empty());
}

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/names.h"

#include "catch.h"
#include "msprobe/error.h"

namespace msprobe::checkpoint {
namespace {

TEST_CASE("matches: a star stands for any text") {
  CHECK(matches("", ""));
  CHECK(matches("*", ""));
  CHECK(matches("*.weight", "a.b.weight"));
  CHECK(matches("a*b*c", "a..b..b..c"));
  CHECK(matches("*layernorm*", "layernorm"));
  CHECK_FALSE(matches("*.weight", "a.weight_scale"));
  CHECK_FALSE(matches("a*b", "a"));
  CHECK_FALSE(matches("", "a"));
  CHECK_FALSE(matches("a.b", "axb"));
}

TEST_CASE("matches: time does not explode") {
  const std::string name(20'000, 'a');
  std::string pattern;
  for (int i = 0; i < 50; ++i) pattern += "*a";
  CHECK_FALSE(matches(pattern + "*b", name));
}

TEST_CASE("replaced: all occurrences, once each") {
  CHECK(replaced("aaa", "a", "aa") == "aaaaaa");
  CHECK(replaced("x.dense.dense.y", ".dense.", ".p.") == "x.p.dense.y");
  CHECK(replaced("abc", "", "x") == "abc");
}

TEST_CASE("find_number: the number between dots behind a word") {
  const auto layer = find_number("decoder.layers.12.mlp", "layers.");
  REQUIRE(layer);
  CHECK(layer->number == 12);
  CHECK(with_number(*layer, 7) == "decoder.layers.7.mlp");
  CHECK(find_number("mlp.experts.local_experts.3.w", "experts.")->number == 3);
  CHECK(with_number(*find_number("layers.3", "layers."), 4) == "layers.4");
  CHECK_FALSE(find_number("my-layers.3.w", "layers."));
  CHECK_FALSE(find_number("layers.x.w", "layers."));
  CHECK_FALSE(find_number("layers.3x.w", "layers."));
  CHECK_FALSE(find_number("layers.-3.w", "layers."));
  CHECK_FALSE(find_number("layers.99999999999999999999.w", "layers."));
  CHECK_FALSE(find_number("layers", "layers."));
}

TEST_CASE("capture: parts of a name, the same one each time") {
  Captures captures;
  REQUIRE(capture("model.layers.{i}.{kind}", "model.layers.12.weight", captures));
  CHECK(filled_in("{kind}/{i}", captures) == "weight/12");
  captures.clear();
  CHECK_FALSE(capture("a.{i}.b", "a.1.2.b", captures));
  captures.clear();
  CHECK_FALSE(capture("a.{i}", "a.", captures));
  captures.clear();
  CHECK(capture("{x}.{x}", "1.1", captures));
  captures.clear();
  REQUIRE(capture("{path...}.gamma", "a.1.ln.gamma", captures));
  CHECK(filled_in("{path...}.weight", captures) == "a.1.ln.weight");
  captures.clear();
  CHECK_FALSE(capture("{path...}.gamma", ".gamma", captures));
  CHECK_FALSE(capture("{path...}.gamma", "a.gamma.b", captures));
  captures.clear();
  CHECK_FALSE(capture("{x}.{x}", "1.2", captures));
  captures.clear();
  CHECK(capture("w{e}_b", "w12_b", captures));
  CHECK_THROWS_AS(filled_in("{unknown}", captures), InvalidArgument);
}

}  // namespace
}  // namespace msprobe::checkpoint

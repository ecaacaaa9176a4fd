// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "trace/match/align.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "catch.h"

using msprobe::trace::align;
using msprobe::trace::Token;

namespace {

using Tokens = std::vector<Token>;
using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

Tokens random_tokens(std::mt19937& random, std::size_t most, std::uint64_t kinds, std::uint64_t details) {
  Tokens tokens(random() % (most + 1));
  for (Token& token : tokens) token = {.what = random() % kinds, .detail = random() % details};
  return tokens;
}

// The most pairs that any alignment has, and of those the most with equal details: tried out.
std::pair<std::size_t, std::size_t> best(const Tokens& target, const Tokens& reference, std::size_t i = 0,
                                         std::size_t j = 0) {
  if (i == target.size() || j == reference.size()) return {0, 0};
  auto result = std::max(best(target, reference, i + 1, j), best(target, reference, i, j + 1));
  if (target[i].what == reference[j].what) {
    auto paired = best(target, reference, i + 1, j + 1);
    ++paired.first;
    paired.second += target[i].detail == reference[j].detail ? 1 : 0;
    result = std::max(result, paired);
  }
  return result;
}

void check_form(const Tokens& target, const Tokens& reference, const Pairs& pairs) {
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    const auto [i, j] = pairs[k];
    REQUIRE(i < target.size());
    REQUIRE(j < reference.size());
    REQUIRE(target[i].what == reference[j].what);
    if (k > 0) {
      REQUIRE(pairs[k - 1].first < i);
      REQUIRE(pairs[k - 1].second < j);
    }
  }
}

std::size_t equal_details(const Tokens& target, const Tokens& reference, const Pairs& pairs) {
  return static_cast<std::size_t>(std::count_if(pairs.begin(), pairs.end(), [&](const auto& pair) {
    return target[pair.first].detail == reference[pair.second].detail;
  }));
}

}  // namespace

TEST_CASE("align: as long as the longest common subsequence, with the most equal details") {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const std::uint64_t kinds = 1 + random() % 4;
    const Tokens target = random_tokens(random, 8, kinds, 2), reference = random_tokens(random, 8, kinds, 2);
    const Pairs pairs = align(target, reference);
    check_form(target, reference, pairs);
    const auto [length, details] = best(target, reference);
    INFO("round " << round);
    REQUIRE(pairs.size() == length);
    // Ends that are equal in everything are taken at once, which may cost an equal detail elsewhere.
    REQUIRE(equal_details(target, reference, pairs) <= details);
  }
}

TEST_CASE("align: with equal details everywhere every longest alignment is as good") {
  std::mt19937 random(2);
  for (int round = 0; round < 2000; ++round) {
    const Tokens target = random_tokens(random, 9, 3, 1), reference = random_tokens(random, 9, 3, 1);
    REQUIRE(align(target, reference).size() == best(target, reference).first);
  }
}

TEST_CASE("align: equal sequences, empty ones, and those without anything in common") {
  std::mt19937 random(3);
  const Tokens tokens = random_tokens(random, 50, 5, 5);
  const Pairs pairs = align(tokens, tokens);
  REQUIRE(pairs.size() == tokens.size());
  for (std::size_t i = 0; i < pairs.size(); ++i) CHECK(pairs[i] == Pairs::value_type(i, i));
  CHECK(align(tokens, {}).empty());
  CHECK(align({}, tokens).empty());
  CHECK(align({}, {}).empty());
  CHECK(align(Tokens(20, Token{.what = 1}), Tokens(30, Token{.what = 2})).empty());
}

TEST_CASE("align: of equal operators those of equal shapes are paired") {
  // linear(a) linear(b) linear(c) against linear(b) linear(c): the first has no counterpart.
  const Tokens target = {{7, 1}, {7, 2}, {7, 3}}, reference = {{7, 2}, {7, 3}};
  CHECK(align(target, reference) == Pairs{{1, 0}, {2, 1}});
}

TEST_CASE("align: of equal operators and shapes those are paired whose results are closest in size") {
  const auto of_size = [](double size) { return Token{.what = 1, .detail = 1, .size = size}; };
  CHECK(align(Tokens{of_size(0.03), of_size(5), of_size(70)}, Tokens{of_size(5.2)}) == Pairs{{1, 0}});
  CHECK(align(Tokens{of_size(0.03), of_size(5)}, Tokens{of_size(5), of_size(6)}) == Pairs{{0, 0}, {1, 1}});
  // Shapes tell more.
  CHECK(align(Tokens{of_size(0.03), {.what = 1, .detail = 2, .size = 5}}, Tokens{of_size(5)}) ==
        Pairs{{0, 0}});
  // Of close ones the closest, whichever stands in front.
  CHECK(align(Tokens{of_size(5.1), of_size(5)}, Tokens{of_size(5.001)}) == Pairs{{1, 0}});
  CHECK(align(Tokens{of_size(5), of_size(5.1)}, Tokens{of_size(5.001)}) == Pairs{{0, 0}});
  const Token other{.what = 2}, another{.what = 3};  // 13 and 18 bits agree
  CHECK(align(Tokens{other, of_size(5.0005), of_size(5.00001), another}, Tokens{of_size(5)}) ==
        Pairs{{2, 0}});
}

TEST_CASE("align: one call more or less in a long sequence shifts nothing") {
  std::mt19937 random(4);
  Tokens target(20000);
  for (Token& token : target) token = {.what = random() % 40, .detail = random() % 3};
  Tokens reference = target;
  reference.erase(reference.begin() + 12345);
  reference.insert(reference.begin() + 777, Token{.what = 99});
  const Pairs pairs = align(target, reference);
  check_form(target, reference, pairs);
  CHECK(pairs.size() == target.size() - 1);
}

TEST_CASE("align: long sequences that differ in many places are aligned by their operators") {
  std::mt19937 random(5);
  Tokens target(12000);
  for (Token& token : target) token = {.what = random() % 1000, .detail = 0};
  Tokens reference;
  for (const Token& token : target) {
    if (random() % 10 != 0)
      reference.push_back({.what = token.what, .detail = random()});  // all details differ
  }
  const Pairs pairs = align(target, reference);
  check_form(target, reference, pairs);
  CHECK(pairs.size() == reference.size());
}

TEST_CASE("align: long sequences with little in common are paired at their ends only") {
  Tokens target(9000, Token{.what = 1}), reference(9000, Token{.what = 2});
  target.front() = reference.front() = {.what = 3};
  target.back() = reference.back() = {.what = 4};
  const Pairs pairs = align(target, reference);
  check_form(target, reference, pairs);
  CHECK(pairs == Pairs{{0, 0}, {8999, 8999}});
}

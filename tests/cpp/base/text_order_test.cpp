// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "base/text_order.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "catch.h"

namespace msprobe {
namespace {

std::vector<std::uint32_t> expected_order(const std::vector<std::string>& texts) {
  std::vector<std::uint32_t> order(texts.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return texts[a] < texts[b]; });
  return order;
}

std::vector<std::uint32_t> found_order(const std::vector<std::string>& texts) {
  return text_order(std::vector<std::string_view>(texts.begin(), texts.end()));
}

}  // namespace

TEST_CASE("text_order: ends, zeros and bytes above 127") {
  CHECK(found_order({}).empty());
  const std::vector<std::string> texts = {
      "abcdefgh", "abcdefg", "", "abcdefghi", std::string("abcdefg\0", 8),     std::string("\0", 1),
      "\xff",     "a",       "", "abcdefgh",  std::string("abcdefgh\0\0", 10), std::string("abcdefgh\0", 9),
      "\x7f"};
  CHECK(found_order(texts) == expected_order(texts));
}

TEST_CASE("text_order: texts that begin alike") {
  std::mt19937 random(7);
  for (const std::size_t longest : {3, 20, 100}) {
    std::vector<std::string> texts;
    for (int i = 0; i < 3000; ++i) {
      std::string text(random() % longest, 'x');
      for (std::size_t n = random() % 4; n > 0; --n)
        text += static_cast<char>(random() % 3 == 0 ? random() : 'x');
      texts.push_back(std::move(text));
    }
    CHECK((found_order(texts) == expected_order(texts)));
  }
}

}  // namespace msprobe

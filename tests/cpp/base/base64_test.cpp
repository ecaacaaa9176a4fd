// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "base/base64.h"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"

using namespace msprobe;

namespace {

std::string base64(std::string_view bytes) {
  std::string text;
  append_base64(text, bytes);
  return text;
}

}  // namespace

TEST_CASE("base64: the examples of RFC 4648, section 10") {
  const std::vector<std::pair<std::string, std::string>> examples = {{"", ""},
                                                                     {"f", "Zg=="},
                                                                     {"fo", "Zm8="},
                                                                     {"foo", "Zm9v"},
                                                                     {"foob", "Zm9vYg=="},
                                                                     {"fooba", "Zm9vYmE="},
                                                                     {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : examples) {
    CHECK(base64(bytes) == text);
    CHECK(from_base64(text) == bytes);
  }
}

TEST_CASE("base64: any bytes come back, behind what was there") {
  std::mt19937 random(1);
  for (int length = 0; length < 200; ++length) {
    std::string bytes(static_cast<std::size_t>(length), '\0');
    for (char& one : bytes) one = static_cast<char>(random());
    CHECK(from_base64(base64(bytes)) == bytes);
    std::string behind = "x";
    append_base64(behind, bytes);
    CHECK(behind == "x" + base64(bytes));
  }
}

TEST_CASE("base64: what is none is refused") {
  for (const char* text : {"A", "AB", "ABC", "ABCDE", "====", "A===", "AB=C", "=ABC", "AB==AAAA", "ABC=DEFG",
                           "AB C", "AB\nC", "AB-_", "\xff\xff\xff\xff", "Zg==\n"}) {
    CAPTURE(text);
    CHECK_FALSE(from_base64(text));
  }
  CHECK_FALSE(from_base64(std::string("AB\0C", 4)));
  // The bits behind the last byte are 0: no two texts stand for the same bytes.
  CHECK_FALSE(from_base64("Zh=="));
  CHECK_FALSE(from_base64("Zm9="));
}

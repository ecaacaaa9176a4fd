// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/json_form.h"

#include <optional>
#include <string>
#include <vector>

#include "catch.h"
#include "io/json_bytes.h"

using namespace msprobe::io;
using Strings = std::vector<std::string>;

namespace {

// {"a":<number>,"b":"<text>"}
const std::string kObject = R"({"a":1.5,"b":"x"})";

JsonForms<int> forms() {
  const std::vector<JsonHole> holes = {{.begin = 5, .end = 8}, {.begin = 14, .end = 15}};
  JsonForms<int> result;
  result.add(kObject, holes, 7);
  return result;
}

// What stands in the holes of `text`, and how much of it was taken; nothing: it has another form.
std::optional<Strings> values_of(std::string text, JsonForms<int> known = forms()) {
  const std::size_t size = text.size();
  text.append(kJsonZeros, '\0');
  std::vector<std::string_view> values;
  char* end = text.data();
  if (known.match(end, text.data() + size, values) == nullptr) {
    CHECK(end == text.data());
    return std::nullopt;
  }
  Strings result(values.begin(), values.end());
  result.push_back(std::to_string(end - text.data()));
  return result;
}

std::string with_number(const std::string& number) { return R"({"a":)" + number + R"(,"b":"x"})"; }
std::string with_text(const std::string& text) { return R"({"a":1,"b":")" + text + R"("})"; }

}  // namespace

TEST_CASE("JsonForms: what stands in the holes of an object") {
  CHECK(values_of(kObject) == Strings{"1.5", "x", "17"});
  CHECK(values_of(R"({"a":-2,"b":""} and more)") == Strings{"-2", "", "15"});
}

TEST_CASE("JsonForms: another object") {
  for (const char* other : {"", "{", R"({"a":1.5,"b":"x")", R"({"a":1.5,"b":"x)", R"({"a":1.5)", R"({"a":)",
                            R"({ "a":1.5,"b":"x"})", R"({"a":1.5,"c":"x"})", R"({"a":1.5,"b":"x","c":1})",
                            R"({"a":"1.5","b":"x"})", R"({"a":1.5,"b":2})", R"({"a":null,"b":"x"})"}) {
    INFO(other);
    CHECK_FALSE(values_of(other).has_value());
  }
}

TEST_CASE("JsonForms: numbers") {
  for (const char* number : {"0", "-0", "0.0", "10", "1e5", "1E+05", "-1.25e-07",
                             "123456789012345678901234567890.5", "NaN", "-NaN", "Infinity", "-Infinity"}) {
    INFO(number);
    CHECK(values_of(with_number(number)).value_or(Strings{}).at(0) == number);
  }
  // No numbers, or such that a JsonScanner has to look at.
  for (const char* number : {"",       "-",    "01",    "-01",     ".5",
                             "1.",     "1.e5", "1e",    "1e+",     "1e100",
                             "1e-100", "+1",   "1 ",    " 1",      "0x1",
                             "1f",     "Nan",  "NaNs",  "Infinit", "Inf",
                             "- 1",    "--1",  "1.5.5", "1e5.5",   "1234567890123456789012345678901.5"}) {
    INFO(number);
    CHECK_FALSE(values_of(with_number(number)).has_value());
  }
}

TEST_CASE("JsonForms: texts") {
  for (const std::string& text :
       {std::string(), std::string("a b"), std::string(100, '/'), std::string(4096, 'x')}) {
    INFO(text);
    CHECK(values_of(with_text(text)).value_or(Strings{"", "-"}).at(1) == text);
  }
  for (const std::string& text :
       {std::string("\\n"), std::string("\\\""), std::string("\\"), std::string("\xc3\xa9"),
        std::string("\xff"), std::string("a\nb"), std::string("a\0b", 3), std::string(4097, 'x')}) {
    INFO(text);
    CHECK_FALSE(values_of(with_text(text)).has_value());
  }
}

TEST_CASE("JsonForms: an object without holes") {
  JsonForms<int> known;
  known.add("{}", {}, 1);
  CHECK(values_of("{} ", std::move(known)) == Strings{"2"});
  CHECK_FALSE(values_of("{}", {}).has_value());
}

TEST_CASE("JsonForms: what was made of the object that is alike") {
  JsonForms<int> known;
  const auto add = [&](const std::string& text, int meaning) {
    const std::size_t begin = text.find('1');
    const std::vector<JsonHole> holes = {{.begin = begin, .end = begin + 1}};
    known.add(text, holes, meaning);
  };
  // They begin alike, end alike, and one is the beginning of another.
  add(R"({"a":1})", 1);
  add(R"({"a":1,"b":2})", 2);
  add(R"({"a":null,"b":1})", 3);
  add(R"({"a":"1"})", 4);
  add(R"({"a":1})", 5);  // the first stays
  const auto meaning_of = [&](std::string text) {
    text.append(kJsonZeros, '\0');
    char* at = text.data();
    std::vector<std::string_view> values;
    const int* const meaning = known.match(at, text.data() + text.size() - kJsonZeros, values);
    return meaning == nullptr ? 0 : *meaning;
  };
  for (int i = 0; i < 3; ++i) {
    CHECK(meaning_of(R"({"a":5})") == 1);
    CHECK(meaning_of(R"({"a":5,"b":2})") == 2);
    CHECK(meaning_of(R"({"a":null,"b":5})") == 3);
    CHECK(meaning_of(R"({"a":"text"})") == 4);
    CHECK(meaning_of(R"({"a":5,"b":3})") == 0);
  }
}

TEST_CASE("JsonForms: of very many that begin alike the last ones are known") {
  JsonForms<int> known;
  const auto text_of = [](int i) { return "{\"x\":" + std::to_string(1000 + i) + "}"; };
  for (int i = 0; i < 200; ++i) known.add(text_of(i), {}, i);
  std::vector<std::string_view> values;
  int found = 0;
  for (int i = 0; i < 200; ++i) {
    std::string text = text_of(i) + std::string(kJsonZeros, '\0');
    char* at = text.data();
    const int* const meaning = known.match(at, text.data() + text.size() - kJsonZeros, values);
    if (meaning == nullptr) continue;
    CHECK(*meaning == i);
    ++found;
    CHECK(i >= 100);
  }
  CHECK(found >= 50);
}

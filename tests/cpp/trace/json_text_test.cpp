// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "trace/json/json_text.h"

#include <limits>
#include <string>

#include "catch.h"

using namespace msprobe::trace;

namespace {

std::string json_string(std::string_view utf8) {
  std::string out;
  append_json_string(out, utf8);
  return out;
}

std::string real(double value) {
  std::string out;
  append_json_real(out, value);
  return out;
}

}  // namespace

TEST_CASE("json text: strings are escaped as Python's json does") {
  CHECK(json_string("") == "\"\"");
  CHECK(json_string("plain ~") == "\"plain ~\"");
  CHECK(json_string("a\"b\\c/") == "\"a\\\"b\\\\c/\"");
  CHECK(json_string("\b\f\n\r\t") == "\"\\b\\f\\n\\r\\t\"");
  CHECK(json_string(std::string_view("\0\x01\x1f\x7f", 4)) == "\"\\u0000\\u0001\\u001f\\u007f\"");
}

TEST_CASE("json text: a byte of any value is found at any place of a long string") {
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    const std::string alone = json_string(std::string_view(&c, 1));
    const std::string escaped = alone.substr(1, alone.size() - 2);
    for (std::size_t before = 0; before < 20; ++before) {
      for (const char filler : {' ', '!', '~', '0'}) {
        const std::string left(before, filler);
        const std::string right(19 - before, filler);
        CHECK(json_string(left + c + right) == "\"" + left + escaped + right + "\"");
      }
    }
  }
}

TEST_CASE("json text: characters beyond ASCII become escapes, beyond 16 bits two of them") {
  CHECK(json_string("\xc3\xa9") == "\"\\u00e9\"");
  CHECK(json_string("x\xe5\xb1\x82y") == "\"x\\u5c42y\"");
  CHECK(json_string("\xf0\x9f\x98\x80") == "\"\\ud83d\\ude00\"");
  CHECK(json_string("\xf4\x8f\xbf\xbf") == "\"\\udbff\\udfff\"");
}

TEST_CASE("json text: bytes that are not UTF-8 become U+FFFD, one each") {
  const std::string bad = "\\ufffd";
  CHECK(json_string("\x80") == "\"" + bad + "\"");
  CHECK(json_string("a\xff"
                    "b") == "\"a" + bad + "b\"");
  CHECK(json_string("\xc3") == "\"" + bad + "\"");
  CHECK(json_string("\xe5\xb1") == "\"" + bad + bad + "\"");
  CHECK(json_string("\xc3(") == "\"" + bad + "(\"");
  CHECK(json_string("\xc0\x80") == "\"" + bad + bad + "\"");                      // a long form of NUL
  CHECK(json_string("\xe0\x80\xaf") == "\"" + bad + bad + bad + "\"");            // a long form of '/'
  CHECK(json_string("\xed\xa0\x80") == "\"" + bad + bad + bad + "\"");            // a surrogate
  CHECK(json_string("\xf4\x90\x80\x80") == "\"" + bad + bad + bad + bad + "\"");  // above U+10FFFF
}

TEST_CASE("json text: numbers have the shortest text that gives the same double back") {
  CHECK(real(1e-40) == "1e-40");
  CHECK(real(-0.0) == "-0.0");
  CHECK(real(1099511627776.0) == "1099511627776.0");
  CHECK(real(0.2544615864753723) == "0.2544615864753723");
  CHECK(real(1e16) == "1e+16");
  CHECK(real(9007199254740993.0) == "9007199254740992.0");
  CHECK(real(0.0001) == "0.0001");
  CHECK(real(0.00001) == "1e-05");
  CHECK(real(-1.5) == "-1.5");
  CHECK(real(100) == "100.0");
  CHECK(real(std::numeric_limits<double>::max()) == "1.7976931348623157e+308");
  CHECK(real(std::numeric_limits<double>::quiet_NaN()) == "NaN");
  CHECK(real(std::numeric_limits<double>::infinity()) == "Infinity");
  CHECK(real(-std::numeric_limits<double>::infinity()) == "-Infinity");
}

TEST_CASE("json text: entries stand on lines of their own, one space deeper per level") {
  std::string out = "before ";
  JsonText json(out, 2);
  json.begin_object();
  json.plain_key("a");
  json.begin_list();
  json.integer(-1);
  json.unsigned_integer(18446744073709551615ULL);
  json.end_list();
  json.key("b\n");
  json.begin_object();
  json.end_object();
  json.plain_key("c");
  json.boolean(true);
  json.end_object();
  CHECK(out ==
        "before {\n   \"a\": [\n    -1,\n    18446744073709551615\n   ],\n   \"b\\n\": {},\n   \"c\": true\n "
        " }");
}

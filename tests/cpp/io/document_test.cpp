// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/document.h"

#include <cmath>
#include <string>

#include "catch.h"
#include "msprobe/error.h"
#include "temp_dir.h"

using namespace msprobe;
using namespace msprobe::io;
using Catch::Matchers::Contains;
using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;
using msprobe::test::TempDir;
using msprobe::test::write_bytes;

namespace {

template <typename Parse>
std::string refusal(const Parse& parse, const std::string& text, const DocumentLimits& limits = {}) {
  try {
    parse(text, "x", limits);
  } catch (const FormatError& error) {
    return error.what();
  }
  return "accepted";
}

std::string json_refusal(const std::string& text, const DocumentLimits& limits = {}) {
  return refusal(parse_json_document, text, limits);
}
std::string yaml_refusal(const std::string& text, const DocumentLimits& limits = {}) {
  return refusal(parse_yaml_document, text, limits);
}
Value json(const std::string& text) { return parse_json_document(text, "x"); }
Value yaml(const std::string& text) { return parse_yaml_document(text, "x"); }

}  // namespace

TEST_CASE("documents: JSON and YAML say the same") {
  const Value from_json = json(R"({"a": [1, -2.5, "x", null, true], "b": {"c": "1", "d": []}, "e": {}})");
  const Value from_yaml = yaml("# comment\na: [1, -2.5, x, ~, yes]\nb:\n  c: '1'\n  d: []\ne: {}\n");
  CHECK(from_json == from_yaml);
  CHECK(*from_json.find("a")->as<Value::List>()->at(0).as<std::int64_t>() == 1);
  CHECK(*from_json.find("b")->find("c")->as<std::string>() == "1");
  CHECK(from_json.find("none") == nullptr);
  CHECK(from_json.find("a")->find("b") == nullptr);
}

TEST_CASE("documents: every value knows its line") {
  const Value of = json("\n{\n\"a\": 1,\n\"b\": [\n2\n,\"x\",\ntrue],\n\n\"c\": {\"d\": null}}");
  CHECK(of.line == 2);
  CHECK(of.find("a")->line == 3);
  CHECK(of.find("b")->line == 4);
  const Value::List& list = *of.find("b")->as<Value::List>();
  CHECK(list.at(0).line == 5);
  CHECK(list.at(1).line == 6);
  CHECK(list.at(2).line == 7);
  CHECK(of.find("c")->find("d")->line == 9);
  const Value other = yaml("a: 1\nb:\n- 2\n- {c: 3}\n");
  CHECK(other.find("a")->line == 1);
  CHECK(other.find("b")->line == 3);
  CHECK(other.find("b")->as<Value::List>()->at(1).find("c")->line == 4);
}

TEST_CASE("documents: numbers of JSON") {
  const auto number = [](const std::string& text) { return json("[" + text + "]").as<Value::List>()->at(0); };
  CHECK(*number("9223372036854775807").as<std::int64_t>() == INT64_MAX);
  CHECK(*number("-9223372036854775808").as<std::int64_t>() == INT64_MIN);
  CHECK(*number("9223372036854775808").as<double>() == 0x1p63);
  CHECK(*number("-9223372036854775809").as<double>() == -0x1p63);
  CHECK(*number("18446744073709551616").as<double>() == 0x1p64);
  CHECK(*number("1.0").as<double>() == 1.0);
  CHECK(*number("1e-400").as<double>() == 0);
  CHECK_THAT(json_refusal("[\n1e400]"), Equals("x: line 2: expected JSON: number overflow parsing '1e400'"));
  CHECK_THAT(json_refusal("[" + std::string(5000, '9') + "]"), Contains("number overflow"));
  for (const std::string word : {"NaN", "Infinity", "-Infinity", "+1", "01", ".5", "0x1", "1.", "1e"}) {
    CHECK_THAT(json_refusal("[" + word + "]"), StartsWith("x: line 1, column "));
  }
}

TEST_CASE("documents: plain words of YAML") {
  const auto plain = [](const std::string& text) { return yaml("a: " + text).find("a")->is; };
  for (const char* word : {"", "~", "null", "Null", "NULL"})
    CHECK(yaml(std::string("a: ") + word).find("a")->is_null());
  for (const char* word : {"true", "True", "yes", "On", "ON"}) CHECK(std::get<bool>(plain(word)));
  for (const char* word : {"false", "FALSE", "no", "off"}) CHECK_FALSE(std::get<bool>(plain(word)));
  CHECK(std::get<std::int64_t>(plain("12")) == 12);
  CHECK(std::get<std::int64_t>(plain("+12")) == 12);
  CHECK(std::get<std::int64_t>(plain("-12")) == -12);
  CHECK(std::get<std::int64_t>(plain("012")) == 12);
  CHECK(std::get<std::int64_t>(plain("0x1F")) == 31);
  CHECK(std::get<std::int64_t>(plain("0o17")) == 15);
  CHECK(std::get<double>(plain("1.5")) == 1.5);
  CHECK(std::get<double>(plain(".5")) == 0.5);
  CHECK(std::get<double>(plain("1e-3")) == 1e-3);
  CHECK(std::get<double>(plain("9223372036854775808")) == 0x1p63);
  CHECK(std::isnan(std::get<double>(plain(".nan"))));
  CHECK(std::get<double>(plain("-.inf")) == -HUGE_VAL);
  for (const char* text : {"3-5", "2026-01-31", "12:30", "1_000", "nan", "inf", "0x", "0o8", "e5", "+", ".",
                           "1e999", "1.2.3", "0x-1", "y", "infinity"}) {
    CHECK(std::get<std::string>(plain(text)) == text);
  }
  CHECK(std::get<std::string>(plain("'12'")) == "12");
  CHECK(std::get<std::string>(plain("!!str 12")) == "12");
  CHECK(std::get<std::string>(plain("\"\"")).empty());
  CHECK(yaml("").is_null());
  CHECK(yaml("# nothing\n").is_null());
}

TEST_CASE("documents: aliases of YAML are what they stand for") {
  CHECK(yaml("a: &f {list: [x]}\nb: *f\nc: &n 3\nd: [*n, *n]\n&k key: 1\nother: *k\n") ==
        yaml("a: {list: [x]}\nb: {list: [x]}\nc: 3\nd: [3, 3]\nkey: 1\nother: key\n"));
  CHECK(yaml("a: &f {list: [x]}\nb: *f\n").find("b")->line == 2);
  CHECK_THAT(yaml_refusal("a: &f [*f]"), Equals("x: line 1: an alias of what it is a part of"));
  CHECK_THAT(yaml_refusal("a: *f"), StartsWith("x: line 1, column 4: expected YAML: "));
  CHECK_THAT(yaml_refusal("a: &f {b: 1}\nc:\n  <<: *f\n"), StartsWith("x: line 3: merge keys are not read"));
  CHECK_THAT(yaml_refusal("? &f {a: 1}\n: b\n"), Contains("expected a key that is text, found brackets"));
  CHECK_THAT(yaml_refusal("a: &f {b: 1}\n*f : c\n"),
             Contains("expected a key that is text, found an object"));
}

TEST_CASE("documents: what grows from aliases is bounded") {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 20; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
    for (int copy = 1; copy < 10; ++copy) bomb += ", " + before;
    bomb += "]\n";
  }
  CHECK_THAT(yaml_refusal(bomb), Contains(": found more than 4194304 values"));
}

TEST_CASE("documents: what is hostile is refused") {
  CHECK_THAT(json_refusal(std::string(200'000, '[')),
             Equals("x: line 1: nested too deeply: expected at most 64 levels"));
  CHECK_THAT(yaml_refusal("a: " + std::string(64, '[') + std::string(64, ']')),
             Equals("x: line 1: nested too deeply: expected at most 64 levels"));
  CHECK_THAT(yaml_refusal(std::string(200'000, '[')), StartsWith("x: line 1: "));
  CHECK(json_refusal(std::string(64, '[') + std::string(64, ']')) == "accepted");
  std::string deep;
  for (int i = 0; i < 200; ++i) deep += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  CHECK_THAT(yaml_refusal(deep), Equals("x: line 65: nested too deeply: expected at most 64 levels"));

  const char* twice = "\"b\": the key stands twice in one object, expected once";
  CHECK(json_refusal("{\"a\": 1,\n\"b\": 1, \"c\": {\"b\": 2},\n\"b\": 3}") ==
        std::string("x: line 3: ") + twice);
  CHECK(yaml_refusal("b: 1\nc: {b: 2}\n'b': 3") == std::string("x: line 3: ") + twice);

  for (const auto& refuse : {json_refusal, yaml_refusal}) {
    CHECK_THAT(refuse("{\"a\": \"\xff\"}", {}), Equals("x: byte 7: expected UTF-8 text"));
    CHECK_THAT(refuse(std::string("[1,\0 2]", 7), {}), Equals("x: byte 3: expected text, found a NUL byte"));
    CHECK_THAT(refuse("[1, 2, 3]", {.values = 3}), Equals("x: line 1: found more than 3 values"));
    CHECK(refuse("[1, 2, 3]", {.values = 4}) == "accepted");
  }
  CHECK_THAT(yaml_refusal("a: !!python/object:os.system x"),
             Contains("the tag \"tag:yaml.org,2002:python/object:os.system\" is not read"));
  CHECK_THAT(yaml_refusal("a: !own {b: 1}"), Contains("is not read"));
  CHECK_THAT(yaml_refusal("a: 1\n---\nb: 2\n"), Contains("expected one document, found another"));
  CHECK_THAT(yaml_refusal("a: [1, 2"), StartsWith("x: line 1, column "));
  CHECK_THAT(yaml_refusal("a: b: c"), Equals("x: line 1, column 5: expected YAML: illegal map value"));
  CHECK_THAT(yaml_refusal("~: x"), Contains("expected a key that is text, found nothing"));
  CHECK_THAT(yaml_refusal("[x]: y"), Contains("expected a key that is text, found brackets"));
}

TEST_CASE("documents: what is wrong with JSON is said with its place") {
  CHECK_THAT(
      json_refusal(""),
      Equals("x: line 1, column 1: expected JSON: unexpected end of input; expected '[', '{', or a literal"));
  CHECK_THAT(json_refusal("{\"task\": \n x}"), Equals("x: line 2, column 2: expected JSON: invalid literal"));
  CHECK_THAT(json_refusal("{\"a\": 1,}"),
             Equals("x: line 1, column 9: expected JSON: unexpected '}'; expected string literal"));
  CHECK_THAT(json_refusal("{} {}"), StartsWith("x: line 1, column 4: expected JSON: unexpected '{'"));
  CHECK_THAT(json_refusal("[1 // no\n]"), StartsWith("x: line 1, column "));
  CHECK_THAT(json_refusal("[\"\\ud800\"]"), StartsWith("x: line 1, column "));
  CHECK_THAT(json_refusal("[\"a\nb\"]"), StartsWith("x: line 2, column "));
  CHECK(json_refusal("\xEF\xBB\xBF{}") == "accepted");
  CHECK(yaml_refusal("\xEF\xBB\xBF{}") == "accepted");
}

TEST_CASE("documents: a value in a message") {
  CHECK(json(R"({"a": [1, 2.5, "x\"y\n", null, true], "b": {}})").shown() ==
        R"({"a": [1, 2.5, "x\"y?", null, true], "b": {}})");
  const std::string shown = json("[\"" + std::string(100, 'x') + "\"]").shown();
  CHECK(shown == "[\"" + std::string(55, 'x') + "...");
  CHECK(json("\"" + std::string(28, 'x') +
             "\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3"
             "\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\"")
            .shown()
            .ends_with("\xC3\xA4..."));
  CHECK(json("{}").kind() == "an object");
  CHECK(json("[]").kind() == "a list");
  CHECK(json("1").kind() == "a number");
  CHECK(json("null").kind() == "nothing");
}

TEST_CASE("documents: files are known by their names") {
  const TempDir dir;
  write_bytes(dir / "a.json", "{\"a\": 1}");
  write_bytes(dir / "a.yaml", "a: 1");
  write_bytes(dir / "a.yml", "a: 1");
  write_bytes(dir / "a.txt", "a: 1");
  CHECK(read_document(dir / "a.json") == read_document(dir / "a.yaml"));
  CHECK(read_document(dir / "a.json") == read_document(dir / "a.yml"));
  CHECK_THROWS_AS(read_document(dir / "a.txt"), InvalidArgument);
  CHECK_THROWS_AS(read_document(dir / "none.json"), IoError);
  CHECK_THROWS_AS(read_document(dir.path()), InvalidArgument);
  CHECK_THROWS_AS(read_document(dir / "a.json", {.bytes = 7}), FormatError);
}

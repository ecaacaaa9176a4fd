// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/document/json_input.h"

#include <random>
#include <string>
#include <vector>

#include "catch.h"
#include "msprobe/error.h"
#include "temp_dir.h"

using namespace msprobe;
using namespace msprobe::io;
using msprobe::test::TempDir;
using msprobe::test::write_bytes;

namespace {

// All events with their places, as text.
class Recorder : public JsonHandler<Recorder> {
 public:
  std::vector<std::string> events;

  void null() { add("null", {}); }
  void boolean(bool value) { add(value ? "true" : "false", {}); }
  void number(std::string_view text) { add("number ", text); }
  void text(std::string_view text) { add("text ", text); }
  void key(std::string_view text) { add("key ", text); }
  void begin(bool is_object) { add(is_object ? "{" : "[", {}); }
  void end(bool is_object) { add(is_object ? "}" : "]", {}); }

 private:
  void add(const char* kind, std::string_view text) {
    events.push_back(kind + std::string(text) + " @" + std::to_string(begin_of_event()) + "-" +
                     std::to_string(position()) + " " + std::to_string(depth()));
  }
};

template <typename Parse>
std::vector<std::string> events_of(const Parse& parse) {
  Recorder recorder;
  try {
    parse(recorder);
  } catch (const FormatError& error) {
    recorder.events.emplace_back(error.what());
  }
  return recorder.events;
}

// The same from memory and through a window.
std::vector<std::string> from_string(std::string content, const std::filesystem::path& path) {
  return events_of([&](Recorder& recorder) { parse_json(content, path, recorder); });
}
std::vector<std::string> from_file(const std::string& content, const std::filesystem::path& path) {
  write_bytes(path, content);
  return events_of([&](Recorder& recorder) { parse_json_file(path, recorder); });
}

// A list of texts, numbers and words of all lengths, about so many bytes.
std::string random_document(std::mt19937& random, std::size_t size) {
  const std::vector<std::string> pieces = {"a", "\\n",  "\\u00e9",   "\\ud83d\\ude00",
                                           "é", "\\\\", "long words"};
  std::string text = "[";
  while (text.size() < size) {
    if (text.size() > 1) text += ",";
    text.append(random() % 40, ' ');
    if (random() % 4 == 0) text += '\n' + std::string(random() % 40, ' ');
    switch (random() % 5) {
      case 0: text += random() % 2 == 0 ? "-Infinity" : "null"; break;
      case 2:
        text += "-7" + std::string(random() % 40, '1');
        if (random() % 2 == 0) text += "." + std::string(1 + random() % 40, '3');
        break;
      case 1: text += "-1" + std::string(random() % 200, '0') + ".25e-3"; break;
      default: {
        const std::size_t count = random() % 1000 == 0 ? 100000 : random() % 20;
        text += "{\"key\":\"";
        for (std::size_t i = 0; i < count; ++i) text += pieces[random() % pieces.size()];
        text += "\"}";
      }
    }
  }
  return text + "]";
}

}  // namespace

TEST_CASE("parse_json_file: the same events as from memory, wherever the window ends") {
  const TempDir dir;
  std::mt19937 random(5);
  for (int round = 0; round < 4; ++round) {
    const std::string text = random_document(random, std::size_t{1} << 20);
    const auto expected = from_string(text, dir / "a.json");
    REQUIRE(expected.size() > 1000);
    REQUIRE(from_file(text, dir / "a.json") == expected);
  }
}

TEST_CASE("parse_json_file: the same refusal as from memory, wherever the file is cut or damaged") {
  const TempDir dir;
  std::mt19937 random(6);
  const std::string text = random_document(random, std::size_t{600} << 10);
  for (int round = 0; round < 60; ++round) {
    std::string bad = text;
    const std::size_t at = random() % bad.size();
    if (round % 3 == 0) {
      bad.resize(at);
    } else {
      bad[at] = std::string("\0\xff\"\\x,", 6)[random() % 6];
    }
    INFO(round << ": " << at);
    REQUIRE(from_file(bad, dir / "a.json") == from_string(bad, dir / "a.json"));
  }
}

TEST_CASE("parse_json: what is no number is refused") {
  const TempDir dir;
  for (const char* text : {"[01]", "[-]", "[-.5]", "[1.]", "[1.e5]", "[.5]", "[1e]", "[--1]", "[1 2]"}) {
    INFO(text);
    CHECK(from_string(text, dir / "a.json").back().find("found no JSON") != std::string::npos);
  }
  const auto expected = from_string("[0, -0, 10, 0.0]", dir / "a.json");
  CHECK(expected.size() == 6);
  CHECK(from_string("[0,\t-0,\n10,\r0.0]", dir / "a.json") == expected);
}

TEST_CASE("parse_json: words that are numbers") {
  for (const char* word : {"NaN", "-NaN", "Inf", "-Inf", "Infinity", "-Infinity", "0", "-0", "0.5e+7"}) {
    const auto events = from_string(word, "a.json");
    REQUIRE(events.size() == 1);
    CHECK(events[0].starts_with("number " + std::string(word) + " @0-"));
  }
  for (const char* word : {"N", "-I", "In", "Na", "Infi", "-Infinit", "-", "1.", "1e", "1e+"}) {
    INFO(word);
    CHECK(from_string(word, "a.json").back().ends_with("the file ends within a value: it is cut short"));
  }
}

TEST_CASE("parse_json: the range of double, by the place of the first digit") {
  const auto is_refused = [](const std::string& number) {
    return from_string(number, "a.json").back().find("Number too big") != std::string::npos;
  };
  for (const char* number : {"9.9e308", "-0.0099e311", "0e999", "0.000e99999999999", "1e-99999999999"}) {
    INFO(number);
    CHECK_FALSE(is_refused(number));
  }
  CHECK_FALSE(is_refused("1" + std::string(400, '0') + "e-200"));
  for (const char* number : {"1e309", "-10e308", "0.01e311", "123e99999999999999999999"}) {
    INFO(number);
    CHECK(is_refused(number));
  }
  CHECK(is_refused("1" + std::string(400, '0')));
}

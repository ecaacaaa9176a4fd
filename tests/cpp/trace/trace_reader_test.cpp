// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/trace_reader.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <clocale>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "catch.h"
#include "msprobe/error.h"
#include "refusal.h"
#include "sample.h"
#include "shown.h"
#include "temp_dir.h"

using namespace msprobe;
using namespace msprobe::trace;
using test::contains;
using test::kSample;
using std::string_literals::operator""s;
using test::read_bytes;
using test::shown;
using test::TempDir;
using test::write_bytes;

namespace {

Trace parsed(const std::string& text, const std::string& file = "dump.json") {
  return parse_trace(text, file);
}

// Items of a record "x" with this content.
std::vector<std::string> items_of(const std::string& record) {
  std::vector<std::string> lines = shown(parsed(R"({"data":{"x":)" + record + "}}"));
  REQUIRE(!lines.empty());
  lines.erase(lines.begin());
  return lines;
}

// The first argument of a record "x".
std::string argument(const std::string& value) {
  const std::vector<std::string> lines = items_of(R"({"input_args":[)" + value + "]}");
  return lines.size() == 1 ? lines[0] : std::to_string(lines.size()) + " items";
}

std::string refusal(const std::string& text, const std::string& path = "a/dump.json") {
  return test::refusal(&parse_trace, text, path);
}
std::string refusal_of_record(const std::string& record) {
  return refusal(R"({"data":{"x":)" + record + "}}");
}
std::string refusal_of_argument(const std::string& value) {
  return refusal_of_record(R"({"input_args":[)" + value + "]}");
}

// A tensor of which one field is another.
std::string tensor_with(const std::string& key, const std::string& value) {
  std::string text =
      R"({"type":"torch.Tensor","dtype":"torch.float32","shape":[2,3],"Max":1.0,"Min":-1.0,"Mean":0.5,)"
      R"("Norm":2.0,"requires_grad":true,"md5":"00ff00ff","data_name":"x.pt"})";
  const std::size_t begin = text.find('"' + key + "\":") + key.size() + 3;
  const std::size_t end = text[begin] == '[' ? text.find(']', begin) + 1 : text.find_first_of(",}", begin);
  return text.replace(begin, end - begin, value);
}

// Where the values of a JSON text stand: [begin, end) of each. For texts without spaces and escapes.
std::vector<std::pair<std::size_t, std::size_t>> values_of(const std::string& text) {
  std::vector<std::pair<std::size_t, std::size_t>> values;
  std::vector<std::size_t> open;
  const auto begins_value = [&](std::size_t i) {
    return i == 0 || text[i - 1] == ':' || (!open.empty() && text[open.back()] == '[');
  };
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '{' || c == '[') {
      open.push_back(i++);
    } else if (c == '}' || c == ']') {
      values.emplace_back(open.back(), ++i);
      open.pop_back();
    } else if (c == ',' || c == ':') {
      ++i;
    } else {
      const std::size_t begin = i;
      i = c == '"' ? text.find('"', i + 1) + 1 : text.find_first_of(",]}", i);
      if (begins_value(begin)) values.emplace_back(begin, i);
    }
  }
  return values;
}

// Something of every kind there is.
const std::string kEverything =
    R"({"task":"statistics","level":"mix","framework":"pytorch","dump_data_dir":null,"data":{)"
    R"("Functional.f.0.forward":{"input_args":[{"type":"torch.Tensor","dtype":"torch.float32","shape":[2,3],)"
    R"("Max":1.5,"Min":NaN,"Mean":-Infinity,"Norm":null,"requires_grad":true,"md5":"00ff00ff","data_name":"x.pt"},)"
    R"(null,[{"type":"int","value":3},[null]],{"a":{"type":"slice","value":[1,null,"b"]},"b":null}],)"
    R"("input_kwargs":{"group":{"type":"torch.ProcessGroup","group_ranks":[0,1],"group_id":"ab"}},)"
    R"("is_recompute":true,"output":[{"type":"bool","value":false}]},)"
    R"("Module.m.M.parameters_grad":{"weight":[{"type":"torch.Tensor","dtype":"torch.float32","shape":[],)"
    R"("Max":0.0,"Min":0.0,"Mean":0.0,"Norm":0.0,"requires_grad":false}],"bias":[null]}}})";

}  // namespace

// ---- What is read

TEST_CASE("read_trace: the sample of the existing tool") {
  const Trace trace = read_trace(kSample + "dump.json");
  CHECK(trace.path() == kSample + "dump.json");
  CHECK(trace.task() == "statistics");
  CHECK(trace.level() == "mix");
  CHECK(trace.framework() == "pytorch");
  CHECK(trace.dump_data_dir().empty());
  CHECK_FALSE(trace.has_md5());
  const std::vector<std::string> lines = shown(trace);
  REQUIRE(lines.size() > 12);
  CHECK(lines[0] == "# Functional.embedding.0.forward input output");
  CHECK(lines[1] ==
        "input_args 0: torch.Tensor torch.int64 [2, 5] no grad 9.0 0.0 3.700000047683716 14.933184623718262");
  CHECK(lines[2] ==
        "input_args 1: torch.Tensor torch.float32 [11, 8] grad 2.298342704772949 -2.966169834136963 "
        "-0.08405939489603043 9.23421573638916");
  CHECK(lines[3] == "input_args 2: null");
  CHECK(lines[4] == "input_args 3: null");
  CHECK(lines[5] == "input_args 4: float 2.0");
  CHECK(lines[6] == "input_args 5: bool False");
  CHECK(lines[7] == "input_args 6: bool False");
  CHECK(lines[8].starts_with("output 0: torch.Tensor torch.float32 [2, 5, 8] grad "));
  CHECK(std::count(lines.begin(), lines.end(), "# Module.embed.Embedding.parameters_grad") == 1);
  CHECK(std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
          return line.starts_with("gradients weight: torch.Tensor torch.float32 [11, 8] no grad ");
        }) == 1);
  for (const char* name : {"Functional.embedding.0.forward", "Module.embed.Embedding.forward.0",
                           "Module.embed.Embedding.parameters_grad", "Functional.embedding.0.backward"}) {
    const auto index = trace.find(name);
    REQUIRE(index);
    CHECK(trace.name(trace.records()[*index]) == name);
  }
  CHECK_FALSE(trace.find("Functional.embedding.0"));
}

TEST_CASE("parse_trace: every kind of value") {
  CHECK(
      shown(parsed(kEverything)) ==
      std::vector<std::string>{
          "# Functional.f.0.forward recompute input output",
          "input_args 0: torch.Tensor torch.float32 [2, 3] grad 1.5 NaN -Infinity null md5 00ff00ff in x.pt",
          "input_args 1: null",
          "input_args 2.0: int 3",
          "input_args 2.1.0: null",
          "input_args 3.a: slice [1, None, 'b']",
          "input_args 3.b: null",
          "input_kwargs group: torch.ProcessGroup [0, 1]",
          "output 0: bool False",
          "# Module.m.M.parameters_grad",
          "gradients weight: torch.Tensor torch.float32 [] no grad 0.0 0.0 0.0 0.0",
          "gradients bias: null",
      });
  CHECK(parsed(kEverything).has_md5());

  CHECK(argument(R"({"type":"str","value":"None"})") == R"(input_args 0: str "None")");
  CHECK(argument(R"({"type":"int","value":-123456789012345678901234567890})") ==
        "input_args 0: int -123456789012345678901234567890");
  CHECK(argument(R"({"type":"float","value":-0.0})") == "input_args 0: float -0.0");
  CHECK(argument(R"({"type":"torch.memory_format","format":"channels_last"})") ==
        R"(input_args 0: torch.memory_format "channels_last")");
  CHECK(argument(R"({"type":"torch.Size","value":[]})") == "input_args 0: torch.Size []");
  CHECK(argument(R"({"type":"torch.Size","value":[[1],[2,[3]]]})") ==
        "input_args 0: torch.Size [[1], [2, [3]]]");
  CHECK(argument(R"({"type":"x","value":[true,null,NaN,-Infinity,"it's","a\nb"]})") ==
        R"(input_args 0: x [True, None, nan, -inf, "it's", 'a\nb'])");
  CHECK(argument(R"({"value":3,"type":"int"})") == "input_args 0: int 3");
  CHECK(argument("{}") == "0 items");
  CHECK(argument("[]") == "0 items");
  CHECK(argument("3") == "0 items");  // no tool writes a plain number here
  CHECK(argument(R"({"class_type":"P2POp","tag":0,"tensor":)" + tensor_with("Max", "1.0") + "}")
            .starts_with("input_args 0.tensor: torch.Tensor "));
}

TEST_CASE("parse_trace: arguments may have the names of fields") {
  CHECK(items_of(R"({"input_kwargs":{"value":{"type":"int","value":1},"shape":[{"type":"int","value":2}],)"
                 R"("type":{"type":"str","value":"t"},"dtype":null,"Max":[null]}})") ==
        std::vector<std::string>{"input_kwargs value: int 1", "input_kwargs shape.0: int 2",
                                 R"(input_kwargs type: str "t")", "input_kwargs dtype: null",
                                 "input_kwargs Max.0: null"});
}

TEST_CASE("parse_trace: parts that are no lists") {
  CHECK(items_of(R"({"output":{"type":"int","value":1},"input":null})") ==
        std::vector<std::string>{"output -: int 1", "input -: null"});
  CHECK(items_of(R"({"parameters":{"a.b":{"type":"int","value":1}}})") ==
        std::vector<std::string>{"parameters a.b: int 1"});
  CHECK(items_of(R"({"output":[]})").empty());
  CHECK(items_of("null").empty());
  CHECK(items_of("{}").empty());
  CHECK(items_of(R"({"unknown":[{"type":"int","value":1}]})").empty());
}

TEST_CASE("parse_trace: debug.json holds what was saved") {
  const std::string text =
      R"({"task":"tensor","level":"debug","framework":"pytorch","dump_data_dir":"/d","data":{)"
      R"("a_debug.0":{"type":"int","value":1},"b_debug.0":null,)"
      R"("c_debug.0":[null,{"k":{"type":"int","value":2}}],"d":5,"e":"t","f":true}})";
  const Trace trace = parsed(text, "some/debug.json");
  CHECK(shown(trace) == std::vector<std::string>{"# a_debug.0", "saved -: int 1", "# b_debug.0",
                                                 "saved -: null", "# c_debug.0", "saved 0: null",
                                                 "saved 1.k: int 2", "# d", "# e", "# f"});
  CHECK(trace.dump_data_dir() == "/d");
  const auto bytes = [&](std::size_t i) {
    const Record& record = trace.records()[i];
    return text.substr(record.begin, record.end - record.begin);
  };
  CHECK(bytes(0) == R"({"type":"int","value":1})");
  CHECK(bytes(1) == "null");
  CHECK(bytes(2) == R"([null,{"k":{"type":"int","value":2}}])");
  CHECK(bytes(3) == "5");
  CHECK(bytes(4) == R"("t")");
  CHECK(bytes(5) == "true");
}

TEST_CASE("parse_trace: where a record stands in its file") {
  const std::string text = read_bytes(kSample + "dump.json");
  const Trace trace = read_trace(kSample + "dump.json");
  for (const Record& record : trace.records()) {
    CHECK(text[record.begin] == '{');
    CHECK(text[record.end - 1] == '}');
    const Trace alone = parsed(R"({"data":{")" + std::string(trace.name(record)) +
                               "\":" + text.substr(record.begin, record.end - record.begin) + "}}");
    CHECK(alone.items(alone.records()[0]).size() == trace.items(record).size());
  }
}

TEST_CASE("parse_trace: how many backward passes went through a call") {
  const Trace trace = parsed(R"({"data":{"a":{"passes":3},"b":{}}})");
  CHECK(trace.records()[0].passes == 3);
  CHECK(trace.records()[1].passes == 1);
}

TEST_CASE("parse_trace: any order of keys, and unknown ones") {
  const Trace trace = parsed(R"({"new":{"data":[1,{"x":null}]},"data":{},"task":"tensor"})");
  CHECK(trace.records().empty());
  CHECK(trace.task() == "tensor");
  CHECK(trace.level().empty());
  CHECK(parsed(R"({"data":null})").records().empty());
}

TEST_CASE("parse_trace: of keys that occur twice the last one counts, in the place of the first") {
  CHECK(shown(parsed(R"({"data":{"a":{"output":[null]},"b":{},"a":{"input":[]}}})")) ==
        std::vector<std::string>{"# a input", "# b"});
  CHECK(shown(parsed(R"({"data":{"a":{}},"data":{"b":{}}})")) == std::vector<std::string>{"# b"});
  CHECK(items_of(R"({"input":[null],"output":[null],"input":[null,null]})") ==
        std::vector<std::string>{"output 0: null", "input 0: null", "input 1: null"});
  CHECK(argument(R"({"type":"int","value":1,"value":2})") == "input_args 0: int 2");
  CHECK(argument(R"({"type":"int","value":1,"type":{}})") == "0 items");
  CHECK(argument(R"({"type":"x","md5":"00","md5":null,"value":[1],"value":{}})") == "input_args 0: x ");
}

TEST_CASE("parse_trace: texts are decoded") {
  const Trace trace = parsed(R"({"data":{"\u00e9\ud83d\ude00\u0000\/\\\"":{"input_kwargs":{"\t":null}}}})");
  CHECK(trace.name(trace.records()[0]) == "é😀\0/\\\""s);
  CHECK(trace.find("é😀\0/\\\""s) == 0);
  CHECK(trace.text(trace.items(trace.records()[0])[0].path) == "\t");
  // Python writes a byte that is not UTF-8, 0xff of a file name, as half a pair.
  CHECK(parsed(R"({"task":"a\udcffb","data":null})").task() == "a\uFFFDb");
}

TEST_CASE("parse_trace: a byte order mark is skipped") {
  const Trace trace = parsed("\xEF\xBB\xBF{\"data\":{\"x\":{}}}");
  CHECK(trace.records().size() == 1);
  CHECK(trace.records()[0].begin == 3 + 13);
  CHECK(refusal("\xEF\xBB\xBF").starts_with("byte 3: "));
  CHECK(contains(refusal("{}\xEF\xBB\xBF"), "found no JSON"));
}

TEST_CASE("Trace: number() reads every number and nothing else") {
  const auto number = [](const std::string& value) {
    const Trace trace = parsed(R"({"data":{"x":{"input":[{"type":"float","value":)" + value + "}]}}}");
    return trace.number(trace.items(trace.records()[0])[0].value);
  };
  CHECK(number("0.1") == 0.1);
  CHECK(number("-3") == -3.0);
  CHECK(number("1E5") == 1e5);
  CHECK(number("123456789012345678901234567890") == 123456789012345678901234567890.0);
  CHECK(number("5e-324") == 5e-324);
  CHECK(number("Infinity") == HUGE_VAL);
  CHECK(number("-Infinity") == -HUGE_VAL);
  CHECK(std::isnan(*number("NaN")));
  CHECK((number("-0.0") == 0.0 && std::signbit(*number("-0.0"))));
  CHECK_FALSE(number("null"));
  CHECK_FALSE(number("true"));
  CHECK_FALSE(number("\"1\""));
  CHECK_FALSE(number("[1]"));

  // Beyond the range of double, whatever the locale of the process has for a decimal point.
  const std::string locale = std::setlocale(LC_NUMERIC, nullptr);
  for (const char* name : {"C", "de_DE.UTF-8"}) {
    if (std::setlocale(LC_NUMERIC, name) == nullptr) continue;
    CHECK(number("9.5e308") == HUGE_VAL);
    CHECK(number("-9.5e308") == -HUGE_VAL);
    CHECK(number("1.5e-999") == 0.0);
    CHECK(number("0." + std::string(400, '0') + "1") == 0.0);
  }
  std::setlocale(LC_NUMERIC, locale.c_str());
}

TEST_CASE("Trace: moving keeps texts") {
  Trace first = parsed(kEverything);
  const std::vector<std::string> before = shown(first);
  const Trace second = std::move(first);
  CHECK(shown(second) == before);
}

// ---- What is refused

TEST_CASE("parse_trace: a file cut at any byte is refused, and says where") {
  for (std::size_t size = 0; size < kEverything.size(); ++size) {
    const std::string problem = refusal(kEverything.substr(0, size));
    INFO(size << ": " << problem);
    REQUIRE(problem.starts_with("byte "));
    const bool says =
        contains(problem, "cut short") || contains(problem, "empty") || contains(problem, "no JSON");
    REQUIRE(says);
  }
  CHECK(refusal("") == "byte 0: the file is empty, expected JSON");
  CHECK(contains(refusal(kEverything.substr(0, 100)), "cut short"));
}

TEST_CASE("parse_trace: nesting has an end") {
  const auto nested = [](std::size_t lists) {  // inside of the file, data, the record
    return std::string(lists, '[') + "null" + std::string(lists, ']');
  };
  CHECK(items_of(R"({"output":)" + nested(61) + "}").size() == 1);
  CHECK(contains(refusal_of_record(R"({"output":)" + nested(62) + "}"), "nesting deeper than 64"));
  CHECK(contains(refusal(std::string(1000000, '[')), "expected an object"));
  CHECK(contains(refusal(R"({"data":{"x":{"input":)" + std::string(1000000, '[')), "nesting deeper than 64"));
  CHECK(contains(refusal(R"({"ignored":)" + std::string(1000000, '[')), "nesting deeper than 64"));
  std::string objects = R"({"data":{"x":{"input":)";
  for (int i = 0; i < 100000; ++i) objects += R"({"a":)";
  CHECK(contains(refusal(objects), "nesting deeper than 64"));
}

TEST_CASE("parse_trace: a value of another kind is refused by name or is no item, at every place") {
  for (const auto& [begin, end] : values_of(kEverything)) {
    for (const char* other : {"null", "true", "5", "1.5", "\"x\"", "[]", "{}", "[5]", R"({"a":"b"})"}) {
      std::string text = kEverything;
      text.replace(begin, end - begin, other);
      INFO(text);
      const std::string problem = refusal(text);
      if (!problem.empty()) {
        CHECK((contains(problem, "expected") && contains(problem, "\"")));
        continue;
      }
      const Trace trace = parsed(text);
      for (const std::string& line : shown(trace)) CHECK(!line.empty());
      CHECK_NOTHROW(parse_trace(text, "debug.json"));
    }
  }
}

TEST_CASE("parse_trace: which kinds are refused") {
  for (const char* text : {"null", "true", "5", "\"x\"", "[]", R"({"data":5})", R"({"data":[]})",
                           R"({"data":"x"})", R"({"data":true})", "{}", R"({"task":"x"})"}) {
    INFO(text);
    CHECK(contains(refusal(text), "\"data\""));
  }
  for (const char* key : {"task", "level", "framework", "dump_data_dir"}) {
    for (const char* value : {"5", "true", "[]", "{}"}) {
      INFO(key << value);
      CHECK(contains(refusal(R"({"data":null,")" + std::string(key) + "\":" + value + "}"),
                     '"' + std::string(key) + "\": expected a text or null"));
    }
  }
  for (const char* record : {"5", "true", "\"x\"", "[]"}) {
    INFO(record);
    CHECK(contains(refusal_of_record(record), "record \"x\": expected an object"));
  }
  for (const char* value : {"5", "\"true\"", "[]", "{}"}) {
    INFO(value);
    CHECK(contains(refusal_of_record(R"({"is_recompute":)"s + value + "}"),
                   "\"is_recompute\": expected true or"));
  }
  for (const char* value : {"0", "-1", "1.5", "4294967296", "null", "true", "\"2\"", "[]"}) {
    INFO(value);
    CHECK(contains(refusal_of_record(R"({"passes":)"s + value + "}"),
                   "\"passes\": expected a whole number above 0"));
  }
  for (const char* value :
       {"null", "true", "5", "\"[2]\"", "{}", "[2.5]", "[[2]]", "[null]", "[{}]", "[\"2\"]"}) {
    INFO(value);
    CHECK(contains(refusal_of_argument(tensor_with("shape", value)),
                   "record \"x\": \"shape\": expected a list of whole numbers"));
  }
  for (const char* value : {"null", "5", "\"true\"", "[]", "{}"}) {
    INFO(value);
    CHECK(contains(refusal_of_argument(tensor_with("requires_grad", value)),
                   "\"requires_grad\": expected true or"));
  }
  for (const char* key : {"dtype", "md5", "data_name"}) {
    for (const char* value : {"true", "5", "[]", "{}"}) {
      INFO(key << value);
      CHECK(contains(refusal_of_argument(tensor_with(key, value)),
                     "record \"x\": \"" + std::string(key) + "\": expected a text or null"));
    }
    CHECK(refusal_of_argument(tensor_with(key, "null")).empty());
  }
  for (const char* key : {"Max", "Min", "Mean", "Norm"}) {
    for (const char* value : {"null", "true", "5", "\"x\"", "[1]", "{}"}) {
      INFO(key << value);  // the kind is told, what compares decides
      CHECK(refusal_of_argument(tensor_with(key, value)).empty());
    }
  }
  CHECK(argument(tensor_with("Max", R"({"a":[1]})")) ==
        "input_args 0: torch.Tensor torch.float32 [2, 3] grad  -1.0 0.5 2.0 md5 00ff00ff in x.pt");
}

TEST_CASE("parse_trace: numbers that are none, or beyond what can be read") {
  CHECK(contains(refusal_of_argument("1e999"), "Number too big"));
  CHECK(contains(refusal_of_argument("1" + std::string(400, '0')), "Number too big"));
  for (const char* number :
       {"01", "+1", ".5", "1.", "1e", "0x10", "-", "--1", "nan", "inf", "1_000", "NaNN"}) {
    INFO(number);
    CHECK(contains(refusal_of_argument(number), "found no JSON"));
  }
}

TEST_CASE("parse_trace: text that is no text") {
  for (std::size_t i = 0; i <= kEverything.size(); i += 7) {
    for (const std::string& bytes : {"\xff"s, "\xc0\x80"s, "\xed\xa0\x80"s, "\xf4\x90\x80\x80"s, "\x80"s}) {
      std::string text = kEverything;
      text.insert(i, bytes);
      CHECK(refusal(text) == "byte " + std::to_string(i) + ": found bytes that are not UTF-8");
    }
    std::string nul = kEverything;
    nul.insert(i, 1, '\0');
    INFO(i << refusal(nul));
    CHECK(refusal(nul).starts_with("byte "));
  }
  CHECK(contains(refusal(R"({"data":{"\ud800":{}}})"), "surrogate"));
  CHECK(contains(refusal(R"({"data":{"\ud800\u0041":{}}})"), "surrogate"));
  CHECK(contains(refusal(R"({"data":{"\u12":{}}})"), "found no JSON"));
  CHECK(contains(refusal(R"({"data":{"\x":{}}})"), "found no JSON"));
  for (int c = 1; c < 0x20; ++c) {
    INFO(c);
    CHECK(contains(refusal(R"({"data":{"a)" + std::string(1, static_cast<char>(c)) + R"(b":{}}})"),
                   "found no JSON"));
  }
  CHECK(contains(refusal("{\"data\":{}}\0"s), "NUL"));
  CHECK(contains(refusal(R"({"data":{}} x)"), "found no JSON"));
  CHECK(contains(refusal(R"({"data":{}}{"data":{}})"), "found no JSON"));
  CHECK(contains(refusal(R"({"data":{},})"), "found no JSON"));
  CHECK(contains(refusal(R"({'data':{}})"), "found no JSON"));
  CHECK(contains(refusal("// x\n{}"), "found no JSON"));
}

TEST_CASE("parse_trace: a long name above many values does not take memory without end") {
  const std::string name(1 << 20, 'n');
  std::string values = "null";
  for (int i = 0; i < 200; ++i) values += ",null";
  CHECK(contains(refusal_of_record(R"({"input_kwargs":{")" + name + "\":[" + values + "]}}"), "long names"));
}

TEST_CASE("parse_trace: a message shows names as printable text") {
  const std::string problem = refusal(R"({"data":{"a\n\u001b\u00e9)" + std::string(1000, 'x') + R"(":5}})");
  CHECK(contains(problem, "record \"a????xxx"));
  CHECK(problem.size() < 200);
}

TEST_CASE("parse_trace: the group of a communication") {
  const Trace trace = parse_trace(
      R"({"data":{"Distributed.all_reduce.0.forward":{"input_args":[null],"input_kwargs":{"group":
      {"type":"torch.ProcessGroup","group_ranks":[0,1],"group_id":"77849d8c"},"x":{"type":"int","value":1}}}}})",
      "dump.json");
  const auto items = trace.items(trace.records()[0]);
  REQUIRE(items.size() == 3);
  CHECK(trace.group_id(items[0]).empty());
  CHECK(trace.group_id(items[1]) == "77849d8c");
  CHECK(trace.text(items[1].value) == "[0, 1]");
  CHECK(trace.group_id(items[2]).empty());
}

TEST_CASE("parse_trace: the group of a communication that is replaced goes with it") {
  const std::string group = R"({"type":"torch.ProcessGroup","group_id":"ab"})";
  const std::string inner = R"({"type":"int","value":1,"inner":)" + group + "}";
  const Trace trace = parsed(R"({"data":{"x":{"input_args":[null,)" + group + R"(],"output":[)" + group +
                             R"(],"input_args":[null,null]},"y":{"output":[null,)" + inner + "]}}}");
  const auto items = trace.items(trace.records()[0]);
  REQUIRE(items.size() == 3);
  CHECK(trace.group_id(items[0]) == "ab");  // the output, which is the first now
  CHECK(trace.group_id(items[1]).empty());
  CHECK(trace.group_id(items[2]).empty());
  for (const Item& item : trace.items(trace.records()[1])) CHECK(trace.group_id(item).empty());
}

TEST_CASE("parse_trace: a part that stands very many times takes no longer for what stands before it") {
  std::string text = R"({"data":{"x":{"output":[null)";
  for (int i = 0; i < 100000; ++i) text += ",null";
  text += "]";
  for (int i = 0; i < 100000; ++i) text += R"(,"input":[null])";
  const Trace trace = parsed(text + "}}}");
  CHECK(trace.items(trace.records()[0]).size() == 100002);
}

TEST_CASE("parse_trace: where the shard of a DTensor lies") {
  const std::string tensor =
      R"({"type":"torch.Tensor","dtype":"torch.float32","shape":[8,8],"Max":1.0,"Min":0.0)";
  const std::string placed =
      tensor +
      R"x(,"dtensor":{"shape":[16,8],"placements":["Replicate","Shard(0)"],"mesh":"77849d8c","mesh_shape":[2,2],)x"
      R"("mesh_dims":["dp","tp"],"coordinate":[0,1],"other":{"placements":[1]}},"Mean":0.5})";
  // An argument that only has that name is none.
  const std::string named = R"({"dtensor":{"type":"int","value":3},"x":{"dtensor":{"mesh":"ab"}}})";
  const Trace trace =
      parse_trace(R"({"data":{"Torch.f.0.forward":{"input_args":[)" + tensor + "}," + placed + "," + tensor +
                      R"(}],"input_kwargs":)" + named + R"(,"output":[)" + placed + "]}}}",
                  "dump.json");
  const auto items = trace.items(trace.records()[0]);
  REQUIRE(items.size() == 5);
  CHECK(trace.has_placements());
  for (const std::size_t with : {1, 4}) {
    INFO(with);
    const TensorPlacement* const placement = trace.placement(items[with]);
    REQUIRE(placement != nullptr);
    CHECK(trace.text(placement->shape) == "[16, 8]");
    CHECK(trace.text(placement->placements) == "['Replicate', 'Shard(0)']");
    CHECK(trace.text(placement->mesh) == "77849d8c");
    CHECK(trace.text(placement->mesh_shape) == "[2, 2]");
    CHECK(trace.text(placement->mesh_dims) == "['dp', 'tp']");
    CHECK(trace.text(placement->coordinate) == "[0, 1]");
    CHECK(trace.text(items[with].shape) == "[8, 8]");  // that of the shard
    CHECK(trace.number(items[with].mean) == 0.5);
  }
  for (const std::size_t without : {0, 2, 3}) CHECK(trace.placement(items[without]) == nullptr);
  CHECK(trace.text(items[3].path) == "dtensor");
  CHECK_FALSE(parse_trace(R"({"data":{"a":{"output":[)" + tensor + "}]}}}", "dump.json").has_placements());
}

TEST_CASE("read_trace: what cannot be read is an IoError with the path") {
  const TempDir dir;
  const auto problem = [](const std::filesystem::path& path) -> std::string {
    for (const auto& read : {+[](const std::filesystem::path& p) { (void)read_trace(p); },
                             +[](const std::filesystem::path& p) { (void)read_stacks(p); },
                             +[](const std::filesystem::path& p) { (void)read_construct(p); }}) {
      try {
        read(path);
        return "read";
      } catch (const IoError& error) {
        CHECK(error.path() == path);
        if (!contains(error.what(), path.string())) return "without the path";
      }
    }
    return "";
  };
  CHECK(problem(dir / "missing.json").empty());
  CHECK(problem(dir.path()).empty());
  REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);
  CHECK(problem(dir / "pipe").empty());
  write_bytes(dir / "secret.json", "{}");
  REQUIRE(::chmod((dir / "secret.json").c_str(), 0) == 0);
  if (::geteuid() != 0) CHECK(problem(dir / "secret.json").empty());  // root reads everything
  write_bytes(dir / "empty.json", "");
  CHECK_THROWS_WITH(read_trace(dir / "empty.json"),
                    (dir / "empty.json").string() + ": byte 0: the file is empty, expected JSON");
}

TEST_CASE("read_trace: a file that is written over meanwhile is read or refused") {
  const TempDir dir;
  const std::filesystem::path path = dir / "dump.json";
  std::string text = R"({"data":{)";
  for (int i = 0; i < 2000; ++i) text += (i > 0 ? ",\"" : "\"") + std::to_string(i) + R"(":{"input":[null]})";
  text += "}}";
  write_bytes(path, text);
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (std::size_t i = 0; !done; ++i) write_bytes(path, text.substr(0, text.size() / (1 + i % 3)));
  });
  for (int i = 0; i < 200; ++i) {
    try {
      const std::size_t records = read_trace(path).records().size();
      if (records != 2000) FAIL(records << " records");
    } catch (const FormatError& error) {
      if (!contains(error.what(), path.string())) FAIL(error.what());
    }
  }
  done = true;
  writer.join();
}

TEST_CASE("read_trace: dtypes are known however the framework writes them, and so is its package") {
  struct Case {
    const char *type, *dtype;
    std::optional<DType> element_type;
    const char* package;
  };
  const Case cases[] = {
      {"torch.Tensor", "torch.float32", DType::kFloat32, "torch"},
      {"mindspore.Tensor", "BFloat16", DType::kBFloat16, "mindspore"},
      {"torch.Tensor", "torch.quint8", std::nullopt, "torch"},
      {"numpy.ndarray", "int64", DType::kInt64, ""},
      {"Tensor", "Bool", DType::kBool, ""},
  };
  for (const Case& expected : cases) {
    INFO(expected.type << " " << expected.dtype);
    const Trace trace = parsed(R"({"data":{"x":{"input_args":[null,{"type":")" + std::string(expected.type) +
                               R"(","dtype":")" + expected.dtype + R"(","shape":[2]}]}}})");
    REQUIRE(trace.all_items().size() == 2);
    CHECK(trace.all_items()[0].element_type() == std::nullopt);
    CHECK(trace.all_items()[1].element_type() == expected.element_type);
    CHECK(trace.package() == expected.package);
  }
}

TEST_CASE("read_trace: a dump of MindSpore") {
  const Trace trace = read_trace(MSPROBE_TEST_DATA "/trace/mindspore/dump.json");
  CHECK(trace.framework() == "mindspore");
  CHECK(trace.package() == "mindspore");
  std::size_t tensors = 0;
  for (const Item& item : trace.all_items()) {
    if (item.kind != Item::Kind::kTensor) continue;
    ++tensors;
    CHECK(item.element_type().has_value());
    CHECK(item.requires_grad == std::nullopt);
  }
  CHECK(tensors == 48);
}

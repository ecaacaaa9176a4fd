// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "trace/record_forms.h"

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "catch.h"
#include "msprobe/error.h"
#include "msprobe/trace_reader.h"
#include "shown.h"
#include "temp_dir.h"

using namespace msprobe;
using namespace msprobe::trace;
using Lines = std::vector<std::string>;

namespace {

// ---- Records that are much alike

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  bool once_in(unsigned count) { return engine_() % count == 0; }
  std::string one_of(const Lines& texts) { return texts[engine_() % texts.size()]; }

  std::string number() {
    return one_of({"0", "-0.0", "1", "-17", "0.25", "3.4028234663852886e+38", "1e-07", "1E5", "1e100", "NaN",
                   "Infinity", "-Infinity", "1234567890123456789012345678901234567890"});
  }
  // What may stand where a number is expected.
  std::string value() {
    if (!once_in(30)) return number();
    return one_of(
        {"null", "true", "\"1\"", "[1]", "{}", "01", "1e400", "1.", "NaNs", R"({"type":"int","value":3})"});
  }
  std::string text() {
    if (!once_in(20)) return one_of({"00ff00ff", "x.0.pt", "", "a b"});
    return one_of({"é", "\\u00e9", "\\n", "\\ud800", "\xff", std::string(5000, 'x')});
  }

 private:
  std::mt19937 engine_;
};

std::string tensor(Random& random) {
  std::string text = R"({"type": "torch.Tensor", "dtype": ")" +
                     random.one_of({"torch.float32", "torch.bfloat16"}) + R"(", "shape": [)" +
                     random.one_of({"", "4", "4, 4"}) + "]";
  for (const char* key : {"Max", "Min", "Mean", "Norm"})
    text += ", \"" + std::string(key) + "\": " + random.value();
  if (random.once_in(20)) text += R"(, "Max": )" + random.value();  // twice
  if (random.once_in(3)) text += R"(, "md5": ")" + random.text() + '"';
  if (random.once_in(3)) text += R"(, "data_name": ")" + random.text() + '"';
  if (random.once_in(30)) text += R"(, "dtensor": {"shape": [8], "mesh": "ab"})";
  if (random.once_in(30)) text += R"(, "inner": {"type": "int", "value": )" + random.value() + "}";
  return text + "}";
}

std::string argument(Random& random) {
  if (random.once_in(10)) return R"({"Max": )" + random.value() + "}";
  if (random.once_in(20)) return R"({"type": "torch.ProcessGroup", "group_ranks": [0, 1], "group_id": "ab"})";
  if (random.once_in(4)) return R"({"type": "int", "value": )" + random.value() + "}";
  if (random.once_in(4)) return R"({"type": "str", "value": ")" + random.text() + "\"}";
  if (random.once_in(10))
    return random.one_of({"null", "[]", "[null]", "3", R"({"type": "x", "format": "y", "value": 2})"});
  return tensor(random);
}

std::string record(Random& random) {
  if (random.once_in(30)) return random.one_of({"null", "{}", "[]", "3"});
  std::string text = R"({"input_args": [)" + argument(random);
  if (random.once_in(2)) text += ", " + argument(random);
  text += R"(], "input_kwargs": {)";
  if (random.once_in(3)) text += R"("scale": )" + argument(random);
  text += "}";
  if (random.once_in(5)) text += R"(, "is_recompute": )" + random.one_of({"true", "false", "null"});
  if (random.once_in(20)) text += R"(, "input_args": [null])";  // twice
  return text + R"(, "output": [)" + argument(random) + "]}";
}

struct Named {
  std::string name;
  std::string value;
};

std::string document(const std::vector<Named>& records) {
  std::string text = R"({"data": {)";
  for (const Named& one : records)
    text += (&one == records.data() ? "\"" : ", \"") + one.name + "\": " + one.value;
  return text + "}}";
}

// ---- What is read of them

// All that a trace tells of its records, that of each in one text.
Lines told(const Trace& trace, const std::string& file) {
  Lines all;
  for (const Record& record : trace.records()) {
    std::string text = file.substr(record.begin, record.end - record.begin);
    for (const Item& item : trace.items(record)) {
      text += "\n" + test::shown(trace, item) + " group " + std::string(trace.group_id(item));
      if (const TensorPlacement* place = trace.placement(item))
        text += " mesh " + std::string(trace.text(place->mesh));
    }
    text += record.is_recompute ? " recompute" : "";
    text += record.has_input ? " input" : "";
    text += record.has_output ? " output" : "";
    all.push_back(text);
  }
  return all;
}

// Nothing: it is refused.
std::optional<Lines> read(const std::string& file) {
  try {
    return told(parse_trace(file, "dump.json"), file);
  } catch (const FormatError&) {
    return std::nullopt;
  }
}

// The records that are read when each is alone, so that there is no other to compare it with.
std::vector<Named> readable(Random& random, int count, Lines& expected) {
  std::vector<Named> records;
  for (int i = 0; i < count; ++i) {
    const std::string name =
        "Torch.f." + std::to_string(i) + (random.once_in(5) ? ".parameters_grad" : ".forward");
    const Named one = {name, record(random)};
    if (const auto alone = read(document({one}))) {
      records.push_back(one);
      expected.insert(expected.end(), alone->begin(), alone->end());
    }
  }
  return records;
}

}  // namespace

TEST_CASE("parse_trace: records that are alike are read as if each stood alone") {
  std::size_t compared = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    Random random(seed);
    Lines expected;
    const std::vector<Named> records = readable(random, 300, expected);
    INFO("seed " << seed);
    const auto found = read(document(records));
    REQUIRE(found.has_value());
    REQUIRE(*found == expected);
    compared += found->size();
  }
  CHECK(compared > 10000);
}

TEST_CASE("parse_trace: a record that is refused alone is refused behind others that are alike") {
  int refused = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    Random random(seed);
    Lines expected;
    const std::vector<Named> records = readable(random, 100, expected);
    for (int i = 0; i < 300; ++i) {
      const Named last = {"Torch.f.last.forward", record(random)};
      if (read(document({last}))) continue;
      std::vector<Named> all = records;
      all.push_back(last);
      INFO("seed " << seed << ": " << last.value);
      CHECK_FALSE(read(document(all)).has_value());
      ++refused;
    }
  }
  CHECK(refused > 100);
}

TEST_CASE("read_trace: records that are alike, wherever the window ends") {
  const test::TempDir dir;
  for (unsigned seed = 0; seed < 3; ++seed) {
    Random random(seed);
    Lines expected;
    const std::string file = document(readable(random, 6000, expected));
    REQUIRE(file.size() > 1000000);
    test::write_bytes(dir / "dump.json", file);
    REQUIRE(told(read_trace(dir / "dump.json"), file) == expected);
  }
}

TEST_CASE("parse_trace: an md5 is noticed in a record that is like one without") {
  const std::string first = R"({"output":[{"type":"torch.Tensor","dtype":"torch.float32","md5":""}]})";
  const std::string second =
      R"({"output":[{"type":"torch.Tensor","dtype":"torch.float32","md5":"00ff00ff"}]})";
  CHECK_FALSE(parse_trace(document({{"a", first}, {"b", first}}), "dump.json").has_md5());
  CHECK(parse_trace(document({{"a", first}, {"b", second}}), "dump.json").has_md5());
}

TEST_CASE("RecordForms: a record is taken in the form of one that was kept") {
  std::string file = R"({"output":[{"value":1}]}{"output":[{"value":-2.5}]}{"output":[{"value":"3"}]})";
  constexpr std::size_t kSize = 24;  // of the first
  io::JsonScanner scanner(file, "dump.json");
  RecordForms forms;
  std::vector<std::string_view> texts;
  CHECK(forms.take(scanner, false, texts) == nullptr);
  Record record;
  record.has_output = true;
  const std::vector<Item> items(1);
  const std::vector<LeafValue> values = {{.field = Field::kValue, .item = 0, .begin = 20, .end = 21}};
  forms.keep(scanner.bytes(0, kSize), record, false, items, values);
  CHECK(forms.take(scanner, true, texts) == nullptr);  // gradients are read otherwise
  for (const char* value : {"1", "-2.5"}) {
    const RecordForm* const form = forms.take(scanner, false, texts);
    REQUIRE(form != nullptr);
    CHECK(form->record.has_output);
    CHECK(form->items.size() == 1);
    REQUIRE(texts.size() == 1);
    CHECK(texts[0] == value);
  }
  CHECK(forms.take(scanner, false, texts) == nullptr);
}

TEST_CASE("RecordForms: forms do not take memory without end") {
  RecordForms forms;
  std::vector<std::string_view> texts;
  const std::vector<Item> items(100);
  for (int i = 0; i < 2000; ++i) {
    std::string file = R"({"x":)" + std::to_string(1000 + i) + "}";
    forms.keep(file, Record(), false, items, {});
    io::JsonScanner scanner(file, "dump.json");
    const RecordForm* const form = forms.take(scanner, false, texts);
    REQUIRE(form != nullptr);
    CHECK(form->items.size() == 100);
  }
  std::string first = R"({"x":1000})";
  io::JsonScanner scanner(first, "dump.json");
  CHECK(forms.take(scanner, false, texts) == nullptr);  // it is forgotten
}

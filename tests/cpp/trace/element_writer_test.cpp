// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <limits>
#include <string>

#include "catch.h"
#include "frameworks.h"
#include "msprobe/error.h"
#include "msprobe/trace.h"
#include "trace/json/element_text.h"
#include "trace/log/encoding.h"

using namespace msprobe;
using namespace msprobe::trace;

namespace {

// What dump.json has for one element.
template <typename Write>
std::string json_of(Write write) {
  ElementWriter out;
  write(out);
  std::string scratch;
  return single_text(out.bytes(), 0, test::kTorch, scratch).text;
}

std::string typed(const std::string& type, const std::string& value) {
  return "{\n \"type\": \"" + type + "\",\n \"value\": " + value + "\n}";
}

std::string tensor_json(const TensorElement& element) {
  return json_of([&](ElementWriter& out) { out.tensor(element); });
}

TensorElement tensor_element(std::span<const std::int64_t> shape, Statistics::Form form) {
  TensorElement element;
  element.dtype = DType::kFloat32;
  element.shape = shape;
  element.statistics.form = form;
  element.statistics.max = 1.5;
  element.statistics.min = -2;
  element.statistics.mean = 0.25;
  element.statistics.norm = 2.5;
  return element;
}

// The lines of the four statistics, as they stand between the shape and the end.
std::string numbers_of(const TensorElement& element) {
  const std::string json = tensor_json(element);
  const std::size_t begin = json.find("\"Max\"");
  return json.substr(begin, json.find(",\n \"requires_grad\"") - begin);
}

}  // namespace

TEST_CASE("elements: each kind of value has its own JSON") {
  CHECK(json_of([](ElementWriter& out) { out.null(); }) == "null");
  CHECK(json_of([](ElementWriter& out) { out.boolean(true); }) == typed("bool", "true"));
  CHECK(json_of([](ElementWriter& out) { out.boolean(false); }) == typed("bool", "false"));
  CHECK(json_of([](ElementWriter& out) { out.integer(-3); }) == typed("int", "-3"));
  CHECK(json_of([](ElementWriter& out) { out.real(0.5); }) == typed("float", "0.5"));
  CHECK(json_of([](ElementWriter& out) { out.text("mean"); }) == typed("str", "\"mean\""));
  CHECK(json_of([](ElementWriter& out) { out.plain_text("isend"); }) == "\"isend\"");
  CHECK(json_of([](ElementWriter& out) { out.plain_integer(7); }) == "7");
  CHECK(json_of([](ElementWriter& out) { out.slice({1, std::nullopt, -2}); }) ==
        typed("slice", "[\n  1,\n  null,\n  -2\n ]"));
  const std::int64_t extents[] = {2, 3};
  CHECK(json_of([&](ElementWriter& out) { out.size(extents); }) == typed("torch.Size", "[\n  2,\n  3\n ]"));
  CHECK(json_of([](ElementWriter& out) { out.size({}); }) == typed("torch.Size", "[]"));
  CHECK(json_of([](ElementWriter& out) { out.typed_text("torch.dtype", "torch.float16"); }) ==
        typed("torch.dtype", "\"torch.float16\""));
  CHECK(json_of([](ElementWriter& out) { out.typed_text("ellipsis", "..."); }) ==
        typed("ellipsis", "\"...\""));
  CHECK(json_of([](ElementWriter& out) { out.typed_real("float32", 1.5); }) == typed("float32", "1.5"));
  CHECK(json_of([](ElementWriter& out) { out.typed_integer("int64", 4); }) == typed("int64", "4"));
  CHECK(json_of([](ElementWriter& out) { out.typed_boolean("bool_", true); }) == typed("bool_", "true"));
}

TEST_CASE("elements: a memory format stands under the key format") {
  CHECK(json_of([](ElementWriter& out) { out.typed_text("torch.memory_format", "channels_last"); }) ==
        "{\n \"type\": \"torch.memory_format\",\n \"format\": \"channels_last\"\n}");
}

TEST_CASE("elements: a complex number is text that Python's complex() reads") {
  const auto json = [](double real, double imaginary) {
    return json_of([&](ElementWriter& out) { out.complex(real, imaginary); });
  };
  CHECK(json(1, 2) == typed("complex", "\"(1.0+2.0j)\""));
  CHECK(json(-0.0, -2.5) == typed("complex", "\"(-0.0-2.5j)\""));
  CHECK(json(0, -0.0) == typed("complex", "\"(0.0-0.0j)\""));
  CHECK(json(std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()) ==
        typed("complex", "\"(nan+infj)\""));
}

TEST_CASE("elements: integers of every size keep all digits") {
  CHECK(json_of([](ElementWriter& out) { out.integer(std::numeric_limits<std::int64_t>::min()); }) ==
        typed("int", "-9223372036854775808"));
  CHECK(json_of([](ElementWriter& out) { out.big_integer("9223372036854775808"); }) ==
        typed("int", "9223372036854775808"));
  CHECK(json_of([](ElementWriter& out) { out.big_integer("-1180591620717411303424"); }) ==
        typed("int", "-1180591620717411303424"));
}

TEST_CASE("elements: what claims to be a large integer must be digits") {
  for (const char* text : {"", "-", "1e5", "1, \"value\": 2", "0x10", "--1", "007", "-00"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(json_of([&](ElementWriter& out) { out.big_integer(text); }), FormatError);
  }
}

TEST_CASE("elements: lists, objects and what is empty among them") {
  CHECK(json_of([](ElementWriter& out) {
          out.begin_list();
          out.end();
        }) == "[]");
  CHECK(json_of([](ElementWriter& out) {
          out.begin_object();
          out.end();
        }) == "{}");
  CHECK(json_of([](ElementWriter& out) {
          out.begin_list();
          out.null();
          out.begin_object();
          out.key("a \"b\"");
          out.begin_list();
          out.end();
          out.key("c");
          out.plain_integer(1);
          out.end();
          out.null();
          out.end();
        }) == "[\n null,\n {\n  \"a \\\"b\\\"\": [],\n  \"c\": 1\n },\n null\n]");
}

TEST_CASE("elements: deep nesting keeps its indentation, and too deep nesting is refused") {
  const auto nested = [](int depth) {
    return json_of([&](ElementWriter& out) {
      for (int i = 0; i < depth; ++i) out.begin_list();
      for (int i = 0; i < depth; ++i) out.end();
    });
  };
  const std::string json = nested(150);
  CHECK(json.find("\n" + std::string(149, ' ') + "[]\n" + std::string(148, ' ') + "]") != std::string::npos);
  CHECK_THROWS_AS(nested(500), FormatError);
}

TEST_CASE("tensors: keys stand in the order of the format") {
  const std::int64_t shape[] = {2, 3};
  TensorElement element = tensor_element(shape, Statistics::Form::kFloats);
  element.requires_grad = true;
  element.statistics.checksum = 0x0a1b2c3d;
  element.data_name = "Torch.add.0.forward.input.0.pt";
  CHECK(tensor_json(element) ==
        "{\n \"type\": \"torch.Tensor\",\n \"dtype\": \"torch.float32\",\n \"shape\": [\n  2,\n  3\n ],\n"
        " \"Max\": 1.5,\n \"Min\": -2.0,\n \"Mean\": 0.25,\n \"Norm\": 2.5,\n \"requires_grad\": true,\n"
        " \"md5\": \"0a1b2c3d\",\n \"data_name\": \"Torch.add.0.forward.input.0.pt\"\n}");
}

TEST_CASE("tensors: a numpy array has its own type and no requires_grad") {
  const std::int64_t shape[] = {1};
  TensorElement element = tensor_element(shape, Statistics::Form::kDoubles);
  element.dtype = DType::kFloat64;
  element.numpy_type = "float64";
  CHECK(tensor_json(element) ==
        "{\n \"type\": \"numpy.ndarray\",\n \"dtype\": \"float64\",\n \"shape\": [\n  1\n ],\n"
        " \"Max\": 1.5,\n \"Min\": -2.0,\n \"Mean\": 0.25,\n \"Norm\": 2.5\n}");
}

TEST_CASE("tensors: a dtype without a number is written by its name") {
  TensorElement element = tensor_element({}, Statistics::Form::kNone);
  element.dtype.reset();
  element.dtype_text = "torch.quint8";
  CHECK(tensor_json(element).find("\"dtype\": \"torch.quint8\",\n \"shape\": [],\n \"Max\": null") !=
        std::string::npos);
}

TEST_CASE("tensors: each form of the statistics has its own numbers") {
  TensorElement element = tensor_element({}, Statistics::Form::kNone);
  Statistics& s = element.statistics;
  CHECK(numbers_of(element) == "\"Max\": null,\n \"Min\": null,\n \"Mean\": null,\n \"Norm\": null");
  s.form = Statistics::Form::kNoNorm;
  CHECK(numbers_of(element) == "\"Max\": 1.5,\n \"Min\": -2.0,\n \"Mean\": 0.25,\n \"Norm\": null");
  s.form = Statistics::Form::kBool;
  s.max = 1;
  s.min = 0;
  CHECK(numbers_of(element) == "\"Max\": true,\n \"Min\": false,\n \"Mean\": null,\n \"Norm\": null");
  s.form = Statistics::Form::kInteger;
  s.integer = -7;
  CHECK(numbers_of(element) == "\"Max\": -7,\n \"Min\": -7,\n \"Mean\": -7,\n \"Norm\": -7");
  s.form = Statistics::Form::kUnsigned;
  s.integer = std::numeric_limits<std::int64_t>::min();
  CHECK(numbers_of(element).starts_with("\"Max\": 9223372036854775808,"));
  s.form = Statistics::Form::kDoubles;
  s.max = 0.1;
  CHECK(numbers_of(element).starts_with("\"Max\": 0.1,"));
  s.form = Statistics::Form::kFloats;
  CHECK(numbers_of(element).starts_with("\"Max\": 0.10000000149011612,"));
}

TEST_CASE("tensors: NaN and infinities are bare words, and the writer remembers that they were there") {
  TensorElement element = tensor_element({}, Statistics::Form::kFloats);
  ElementWriter out;
  out.tensor(element);
  CHECK(out.worst() == Badness::kGood);
  element.statistics.max = std::numeric_limits<double>::infinity();
  element.statistics.min = -std::numeric_limits<double>::infinity();
  element.statistics.mean = std::numeric_limits<double>::quiet_NaN();
  element.statistics.inf_count = 5'000'000'000;
  CHECK(numbers_of(element).starts_with("\"Max\": Infinity,\n \"Min\": -Infinity,\n \"Mean\": NaN,"));
  out.tensor(element);
  CHECK(out.worst() == Badness::kInfinite);
  element.statistics.nan_count = 1;
  out.tensor(element);
  element.statistics.nan_count = 0;
  out.tensor(element);
  CHECK(out.worst() == Badness::kNan);
  out.clear();
  CHECK(out.worst() == Badness::kGood);
  CHECK(out.bytes().empty());
}

TEST_CASE("tensors: extents beyond 32 bits are kept") {
  const std::int64_t shape[] = {std::int64_t{1} << 40, 0};
  CHECK(tensor_json(tensor_element(shape, Statistics::Form::kNone)).find("[\n  1099511627776,\n  0\n ]") !=
        std::string::npos);
}

TEST_CASE("tensors: one takes at most 64 bytes up to 4 dimensions") {
  const std::int64_t shape[] = {1024, 1024, 1024, 1024};
  for (const auto form : {Statistics::Form::kFloats, Statistics::Form::kDoubles, Statistics::Form::kNoNorm}) {
    TensorElement element = tensor_element(shape, form);
    element.statistics.checksum = 1;
    ElementWriter out;
    out.tensor(element);
    CHECK(out.bytes().size() <= 64);
  }
}

TEST_CASE("elements: an element that failed half-way can be taken back") {
  ElementWriter out;
  out.integer(1);
  const std::size_t size = out.bytes().size();
  out.begin_list();
  out.text("half");
  out.shrink(size);
  std::string scratch;
  CHECK(single_text(out.bytes(), 0, test::kTorch, scratch).text == typed("int", "1"));
}

TEST_CASE("elements: every cut and every foreign byte is an error, never a crash") {
  ElementWriter out;
  const std::int64_t shape[] = {2, 3};
  TensorElement element = tensor_element(shape, Statistics::Form::kFloats);
  element.data_name = "a.pt";
  element.statistics.nan_count = 1;
  out.begin_object();
  out.key("k");
  out.begin_list();
  out.tensor(element);
  out.big_integer("123456789012345678901234567890");
  out.slice({1, 2, 3});
  out.size(shape);
  out.slot(3);
  out.end();
  out.key("t");
  out.typed_text("torch.device", "cpu");
  out.end();
  const std::string bytes(out.bytes());
  std::string scratch;
  REQUIRE_NOTHROW(single_text(bytes, 0, test::kTorch, scratch));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(size);
    CHECK_THROWS_AS(single_text(std::string_view(bytes).substr(0, size), 0, test::kTorch, scratch),
                    FormatError);
  }
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(value);
      try {
        single_text(damaged, 0, test::kTorch, scratch);
      } catch (const FormatError&) {
        // the other allowed answer
      }
    }
  }
}

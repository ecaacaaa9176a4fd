// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/flow.h"

#include <string>
#include <string_view>

#include "catch.h"
#include "msprobe/sketch_text.h"
#include "msprobe/trace_reader.h"
#include "verdict/steps.h"

using namespace msprobe;
using steps::call;

TEST_CASE("flow: a view is the tensor that it was made of, and few digits tell nothing") {
  const auto trace = [](std::string_view max, std::string_view min) {
    const std::string numbers = R"(", "Max": )" + std::string(max) + R"(, "Min": )" + std::string(min) +
                                R"(, "Mean": 0.5, "Norm": 3.5)";
    const auto shaped = [&](const std::string& shape) {
      return R"({"type": "torch.Tensor", "shape": )" + shape + R"(, "dtype": "torch.float32)" + numbers + "}";
    };
    return trace::parse_trace(R"({"task": "statistics", "level": "L1", "data": {)" +
                                  call("Tensor.transpose.0.forward", shaped("[2, 8]"), shaped("[8, 2]")) +
                                  "}}",
                              "dump.json");
  };
  const trace::Trace made = trace("1.25", "-0.75");
  const verdict::Flow flow(made);
  CHECK(flow.first(1) == 0);
  CHECK(flow.source(1) == 0);
  // Eight characters of two numbers, or of one of float32.
  const auto has_key = [&](std::string_view max, std::string_view min) {
    const trace::Trace one = trace(max, min);
    return verdict::value_key(one, one.all_items()[0]) != 0;
  };
  CHECK(has_key("1.25", "0.75"));
  CHECK_FALSE(has_key("1.5", "0.75"));
  CHECK_FALSE(has_key("1.25", "1.25"));  // all elements are one number: of few digits, of many
  CHECK(has_key("0.00671534", "0.00671534"));
  const auto has_key_alone = [](const std::string& value) {
    const trace::Trace one = trace::parse_trace(
        R"({"task": "statistics", "level": "L1", "data": {"Tensor.sum.0.forward": {"input_args": [], "output": )"
        R"([{"type": "torch.Tensor", "shape": [], "dtype": "torch.float32", "Max": )" +
            value + R"(, "Min": )" + value + R"(, "Mean": )" + value + R"(, "Norm": )" + value + "}]}}}",
        "dump.json");
    return verdict::value_key(one, one.all_items()[0]) != 0;
  };
  CHECK(has_key_alone("0.123456"));
  CHECK_FALSE(has_key_alone("0.12345"));
}

TEST_CASE("flow: few numbers of 16 bits between close limits are equal to others by chance") {
  const auto has_key = [](const std::string& dtype, const std::string& shape, const char* min) {
    const trace::Trace one = trace::parse_trace(
        R"({"task": "statistics", "level": "L1", "data": {"Tensor.sum.0.forward": {"input_args": [], "output": )"
        R"([{"type": "torch.Tensor", "shape": )" +
            shape + R"(, "dtype": "torch.)" + dtype + R"(", "Max": 0.283203125, "Min": )" + min +
            R"(, "Mean": 0.28212, "Norm": 0.80078125}]}}})",
        "dump.json");
    return verdict::value_key(one, one.all_items()[0]) != 0;
  };
  CHECK_FALSE(has_key("bfloat16", "[8, 1]", "0.28125"));   // each of eight is one of two
  CHECK_FALSE(has_key("bfloat16", "[24, 1]", "0.28125"));  // 22 bits
  CHECK(has_key("bfloat16", "[8, 8]", "0.28125"));         // 58 bits
  CHECK(has_key("bfloat16", "[8, 1]", "-0.28125"));
  CHECK(has_key("float32", "[8, 1]", "0.28125"));
  CHECK_FALSE(has_key("float32", "[8, 1]", "0.28320309"));  // sums of shares: each is 1, or its neighbour
}

TEST_CASE("flow: tensors of one shape with other digests are others, however equal their statistics") {
  // A gradient, what it is when next to nothing was added, the same with another shape, and itself again.
  const auto item = [](std::uint64_t digest, const std::string& shape) {
    stats::Sketch sketch;
    sketch.digest = digest;
    return R"({"type": "torch.Tensor", "shape": )" + shape +
           R"(, "dtype": "torch.float32", "Max": 1.25, "Min": -0.75, "Mean": 0.5, "Norm": 3.5, "sketch": ")" +
           trace::sketch_text(sketch, {}, false) + R"("})";
  };
  const auto trace =
      trace::parse_trace(R"({"task": "statistics", "level": "L1", "data": {)" +
                             call("Tensor.add.0.forward", item(1, "[2, 8]"), item(2, "[2, 8]")) + ", " +
                             call("Tensor.view.0.forward", item(1, "[2, 8]"), item(1, "[16]")) + "}}",
                         "dump.json");
  const verdict::Flow flow(trace);
  CHECK(flow.source(1) == verdict::kNoItem);
  CHECK(flow.source(2) == 0);
  CHECK(flow.follower(0) == 2);
  CHECK(flow.source(3) == 2);
}

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <string_view>

#include "catch.h"
#include "msprobe/error.h"
#include "msprobe/trace_reader.h"
#include "refusal.h"
#include "sample.h"

using namespace msprobe;
using namespace msprobe::trace;
using test::contains;
using test::kSample;

TEST_CASE("read_stacks: frames by record") {
  const Stacks stacks = read_stacks(kSample + "stack.json");
  CHECK_FALSE(stacks.empty());
  REQUIRE(stacks.frames("Functional.embedding.0.forward").size() == 2);
  CHECK(stacks.frames("Functional.embedding.0.forward")[0].starts_with("File "));
  CHECK(stacks.frames("unknown").empty());

  const Stacks small = parse_stacks(R"({"0":[["a","b"],["x","y"]],"1":[["b"],[]],"2":[]})", "s");
  CHECK(small.frames("a").size() == 2);
  CHECK(small.frames("b").empty());  // the last entry counts
  CHECK(parse_stacks("{}", "s").empty());
}

TEST_CASE("read_construct: parents by record") {
  const Construct sample = read_construct(kSample + "construct.json");
  CHECK(sample.parent("Functional.embedding.0.forward") == "Module.embed.Embedding.forward.0");
  CHECK(sample.parent("Module.embed.Embedding.forward.0").empty());

  const Construct small =
      parse_construct(R"({"a":"m","b":null,"c":["m",0,true],"d":[null],"e":[],"a":"n"})", "c");
  std::string entries;
  for (const Construct::Entry& entry : small.entries()) {
    entries.append(entry.name).append("<").append(entry.parent).append(" ");
  }
  CHECK(entries == "a<n b< c<m d< e< ");
  CHECK(small.parent("a") == "n");
  CHECK(small.parent("unknown").empty());
}

TEST_CASE("read_stacks: the form of old releases, one list of lines for each record") {
  const Stacks stacks =
      parse_stacks(R"({"Torch.add.0.forward":["a","b"],"Torch.mul.0.forward":[]})", "s.json");
  REQUIRE(stacks.frames("Torch.add.0.forward").size() == 2);
  CHECK(stacks.frames("Torch.add.0.forward")[1] == "b");
  CHECK(stacks.frames("Torch.mul.0.forward").empty());
}

TEST_CASE("read_construct: micro steps as Megatron numbers them") {
  const Construct construct = parse_construct(
      R"({"a":[null,0],"megatron_micro_step_number":2,"b":["a",1],"c":"a","d":["a"]})", "c.json");
  REQUIRE(construct.entries().size() == 4);
  CHECK(construct.micro_steps() == 3);
  CHECK(construct.entries()[1].micro_step == 1);
  CHECK(construct.entries()[2].micro_step == 0);
  CHECK(construct.parent("b") == "a");
  CHECK_FALSE(parse_construct(R"({"a":null})", "c.json").micro_steps());
  for (const char* number : {"-1", "1.5", "true", "null", "\"2\"", "[2]", "3000000000"}) {
    INFO(number);
    CHECK_THROWS_AS(
        parse_construct(std::string(R"({"megatron_micro_step_number":)") + number + "}", "c.json"),
        FormatError);
  }
}

TEST_CASE("read_stacks: what is no stack.json is refused") {
  const auto problem = [](const std::string& text) {
    return test::refusal(&parse_stacks, text, "stack.json");
  };
  for (const char* text :
       {"null", "true", "5", "\"x\"", "[]", R"({"0":null})", R"({"0":5})", R"({"0":"x"})", R"({"0":{}})",
        R"({"0":["x"]})", R"({"0":[{}]})", R"({"0":[[5]]})", R"({"0":[[null]]})", R"({"0":[[["x"]]]})",
        R"({"0":[[],[],[]]})", R"({"0":[[{}]]})"}) {
    INFO(text);
    CHECK(contains(problem(text), "expected [[names of records], [lines of the stack]]"));
  }
  CHECK(contains(problem(R"({"17":[[5]]})"), "\"17\": expected"));
  CHECK(contains(problem(""), "empty"));
  CHECK(contains(problem(R"({"0":[[)" + std::string(100000, '[')), "expected"));
}

TEST_CASE("read_construct: what is no construct.json is refused") {
  const auto problem = [](const std::string& text) {
    return test::refusal(&parse_construct, text, "construct.json");
  };
  for (const char* text :
       {"null", "true", "5", "\"x\"", "[]", R"({"a":5})", R"({"a":true})", R"({"a":{}})", R"({"a":[5,"m"]})",
        R"({"a":[["m"]]})", R"({"a":["m",{}]})", R"({"a":["m",[]]})"}) {
    INFO(text);
    CHECK(contains(problem(text), "expected the name of a parent"));
  }
  CHECK(contains(problem(R"({"b":5})"), "\"b\": expected"));
  CHECK(contains(problem("\"a\":"), "expected"));
}

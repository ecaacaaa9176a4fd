// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/pt/pickle.h"

#include <random>
#include <string>

#include "catch.h"
#include "msprobe/error.h"

namespace msprobe::io {
namespace {

using std::string_literals::operator""s;

// A pickle run without any function to call.
struct Run {
  explicit Run(const std::string& pickle) {
    const PickleCalls none{[](std::string_view, const PtTuple&) { return nullptr; },
                           [this](const PtValue&) { return values.add(std::string("outside")); }};
    root = run_pickle({reinterpret_cast<const std::uint8_t*>(pickle.data()), pickle.size()}, "x.pt",
                      "data.pkl", values, none);
  }
  PickleValues values;
  const PtValue* root = nullptr;
};

std::string pickle_refusal(const std::string& pickle) {
  try {
    const Run run(pickle);
  } catch (const FormatError& error) {
    return std::string(error.what()).substr(6);
  }
  return "accepted";
}

template <typename T>
T result(const std::string& pickle) {
  const Run run(pickle);
  const T* const value = run.root->as<T>();
  REQUIRE(value != nullptr);
  return *value;
}

const std::string kBegin = "\x80\x02";

TEST_CASE("run_pickle: numbers") {
  CHECK(Run(kBegin + "N.").root->is_none());
  CHECK(result<bool>(kBegin + "\x88."));
  CHECK_FALSE(result<bool>(kBegin + "\x89."));
  CHECK(result<std::int64_t>(kBegin + "K\xFF.") == 255);
  CHECK(result<std::int64_t>(kBegin + "M\xFE\xFF.") == 65534);
  CHECK(result<std::int64_t>(kBegin + "J\xFE\xFF\xFF\xFF.") == -2);
  CHECK(result<std::int64_t>(kBegin + "\x8A\0."s) == 0);
  CHECK(result<std::int64_t>(kBegin + "\x8A\x01\x80.") == -128);
  CHECK(result<std::int64_t>(kBegin + "\x8A\x08\0\0\0\0\0\0\0\x80."s) == INT64_MIN);
  CHECK(result<std::int64_t>(kBegin + "\x8B\x02\0\0\0\xFF\x7F."s) == 32767);
  CHECK(result<double>(kBegin + "G\xBF\xE0\0\0\0\0\0\0."s) == -0.5);
  const Run wide(kBegin + "\x8A\x09\0\0\0\0\0\0\0\0\x01."s);
  REQUIRE(wide.root->as<PtObject>() != nullptr);
  CHECK(wide.root->as<PtObject>()->class_name == "builtins.int");
}

TEST_CASE("run_pickle: containers, in the order of the file") {
  const Run list(kBegin +
                 "](K\x01K\x02"
                 "eK\x03"
                 "a.");
  REQUIRE(list.root->as<PtList>() != nullptr);
  REQUIRE(list.root->as<PtList>()->items.size() == 3);
  CHECK(*list.root->as<PtList>()->items[2]->as<std::int64_t>() == 3);

  const Run dict(kBegin +
                 "}(\x8C\x01zK\x01\x8C\x01"
                 "aK\x02\x8C\x01zK\x03u.");
  const PtDict* const entries = dict.root->as<PtDict>();
  REQUIRE(entries != nullptr);
  CHECK(entries->entries.size() == 3);
  CHECK(*entries->entries[0].first->as<std::string>() == "z");
  CHECK(*entries->find("z")->as<std::int64_t>() == 3);  // the last one, as Python has it
  CHECK(entries->find("b") == nullptr);

  CHECK(result<PtTuple>(kBegin + ").").items.empty());
  CHECK(result<PtTuple>(kBegin + "K\x01K\x02\x86.").items.size() == 2);
  CHECK(result<PtTuple>(kBegin + "(NNNNt.").items.size() == 4);
  CHECK(result<PtList>(kBegin + "(NNl.").items.size() == 2);
  CHECK(Run(kBegin + "(NNd.").root->as<PtDict>()->entries.size() == 1);
}

TEST_CASE("run_pickle: what is called becomes a description") {
  const Run call(kBegin + "cos\nsystem\n\x8C\x02ls\x85R.");
  const auto* const object = call.root->as<PtObject>();
  REQUIRE(object != nullptr);
  CHECK(object->class_name == "os.system");
  CHECK(*object->arguments->as<PtTuple>()->items[0]->as<std::string>() == "ls");

  const Run built(kBegin + "ca\nB\n)\x81}\x8C\x01xK\x05sb.");
  REQUIRE(built.root->as<PtObject>() != nullptr);
  CHECK(*built.root->as<PtObject>()->state->as<PtDict>()->find("x")->as<std::int64_t>() == 5);

  // What a call made is called again.
  const Run twice(kBegin + "ca\nB\n)R)R.");
  CHECK(twice.root->as<PtObject>()->class_name == "a.B");
  const Run keywords(kBegin + "ca\nB\n)}\x92.");
  CHECK(keywords.root->as<PtObject>()->keywords->as<PtDict>() != nullptr);
  CHECK(result<PtName>(kBegin + "c__builtin__\nset\n.").name == "builtins.set");
  CHECK(result<PtName>("\x80\x04\x8C\x01"
                       "a\x8C\x01"
                       "b\x93.")
            .name == "a.b");
  CHECK(result<std::string>(kBegin + "NQ.") == "outside");
}

TEST_CASE("run_pickle: broken programs") {
  CHECK(pickle_refusal(kBegin + "N.") == "accepted");
  CHECK(pickle_refusal("") == "data.pkl byte 0: expected 1 more bytes, found the end after 0");
  CHECK(pickle_refusal(kBegin) == "data.pkl byte 2: expected 1 more bytes, found the end after 0");
  CHECK(pickle_refusal(kBegin + ".") == "data.pkl byte 2: expected 1 values on the stack, found 0");
  CHECK(pickle_refusal("\x80\x07N.") == "data.pkl byte 0: expected pickle protocol 2 to 5, found 7");
  CHECK(pickle_refusal(kBegin + "I1\n.").find("byte 2: found opcode 73") != std::string::npos);
  CHECK(pickle_refusal(kBegin + "\x97.").find("found opcode 151") !=
        std::string::npos);  // out-of-band buffer
  CHECK(pickle_refusal(kBegin + "K\x01(0e.").find("expected a mark") != std::string::npos);
  CHECK(pickle_refusal(kBegin + "N(\x85.").find("expected 1 values on the stack, found 0") !=
        std::string::npos);
  CHECK(pickle_refusal(kBegin + "h\x05.").find("the memo has no value 5") != std::string::npos);
  CHECK(pickle_refusal(kBegin + "Nr\xFF\xFF\xFF\xFF.").find("larger than the pickle") != std::string::npos);
  CHECK(pickle_refusal(kBegin + "X\xFF\xFF\xFF\xFFN.").find("expected 4294967295 more bytes") !=
        std::string::npos);
  CHECK(pickle_refusal(kBegin + "\x8D\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF.")
            .find("expected 18446744073709551615 more") != std::string::npos);
  CHECK(pickle_refusal(kBegin + "\x95\xFF\0\0\0\0\0\0\0."s).find("a frame is longer") != std::string::npos);
  CHECK(pickle_refusal(kBegin + "cos").find("expected the end of a line") != std::string::npos);
  CHECK(pickle_refusal(kBegin + "NNa.").find("cannot append to None") != std::string::npos);
  CHECK(pickle_refusal(kBegin + "]NNs.").find("cannot set items of a list") != std::string::npos);
  CHECK(pickle_refusal(kBegin + "}(Nu.").find("the last key of a dict has no value") != std::string::npos);
  CHECK(pickle_refusal(kBegin + "N)R.").find("cannot call None") != std::string::npos);
  CHECK(pickle_refusal(kBegin + "ca\nB\nNR.").find("cannot call with None, expected a tuple") !=
        std::string::npos);
  CHECK(pickle_refusal(kBegin + "]}b.").find("cannot set the state of a list") != std::string::npos);
  CHECK(pickle_refusal(kBegin + "](N\x90.").find("cannot add to a list") != std::string::npos);
  CHECK(pickle_refusal(kBegin + "NN\x93.").find("expected the name of a class as two texts") !=
        std::string::npos);
}

TEST_CASE("run_pickle: a value that holds itself is cut where it comes round") {
  // list: ] q0 h0 a ; dict as its own value; object as its own state; tuple in a list in the tuple
  const Run list(kBegin + "]q\0h\0a."s);
  REQUIRE(list.root->as<PtList>()->items.size() == 1);
  CHECK(list.root->as<PtList>()->items[0]->as<PtObject>()->class_name == "(cycle)");
  const Run dict(kBegin + "}q\0Nh\0s."s);
  CHECK(dict.root->as<PtDict>()->entries[0].second->as<PtObject>()->class_name == "(cycle)");
  const Run object(kBegin + "ca\nB\n)\x81q\0h\0b."s);
  CHECK(object.root->as<PtObject>()->state->as<PtObject>()->class_name == "(cycle)");
  const Run tuple(kBegin +
                  "]q\0h\0\x85q\x01"
                  "ah\x01."s);
  const auto* const inner = tuple.root->as<PtTuple>()->items[0]->as<PtList>();
  CHECK(inner->items[0]->as<PtObject>()->class_name == "(cycle)");
}

TEST_CASE("run_pickle: deep nesting ends in an error, not on the stack") {
  const auto nested = [](int depth) {
    std::string pickle = kBegin;
    for (int i = 0; i < depth; ++i) pickle += ']';
    for (int i = 1; i < depth; ++i) pickle += 'a';
    return pickle + '.';
  };
  CHECK(pickle_refusal(nested(kPtDepth)) == "accepted");
  CHECK(pickle_refusal(nested(kPtDepth + 1)) == "data.pkl: values are nested more than 1000 deep");
  CHECK(pickle_refusal(nested(300000)).find("nested more than 1000 deep") != std::string::npos);
  std::string tuples = kBegin + "N";
  for (int i = 0; i < 300000; ++i) tuples += '\x85';
  CHECK(pickle_refusal(tuples + '.').find("nested more than 1000 deep") != std::string::npos);
}

TEST_CASE("run_pickle: a few bytes that stand for many values") {
  // Each tuple holds the one before twice: 2^depth values when written out.
  const auto doubled = [](int depth, std::size_t other_bytes) {
    std::string pickle = kBegin;
    for (std::size_t i = 0; i < other_bytes / 2; ++i) pickle += "N0";
    pickle += 'N';
    for (int i = 0; i < depth; ++i) pickle += "2\x86";
    return pickle + '.';
  };
  CHECK(pickle_refusal(doubled(60, 0)).find("shared values nest in each other") != std::string::npos);
  CHECK(pickle_refusal(doubled(15, 0)) == "accepted");
  CHECK(pickle_refusal(doubled(16, 0)).find("at most 65536 values") != std::string::npos);
  CHECK(pickle_refusal(doubled(16, 1 << 12)) == "accepted");  // a larger file may hold more
  CHECK(pickle_refusal(doubled(24, 1 << 22)).find("at most 16777216 values") != std::string::npos);
}

TEST_CASE("run_pickle: random programs of valid opcodes") {
  const std::string opcodes(
      "(012qhNK]aeltu)}dsbcRQ.\x80\x81\x85\x86\x87\x88\x8A\x8C\x8F\x90\x91\x92\x93\x94\x00\x01\n"s);
  std::mt19937 random(1);  // NOLINT: the same every time
  int accepted = 0;
  for (int i = 0; i < 50000; ++i) {
    std::string pickle = kBegin;
    for (std::uint32_t n = random() % 40; n > 0; --n) pickle += opcodes[random() % opcodes.size()];
    accepted += pickle_refusal(pickle + '.') == "accepted" ? 1 : 0;
  }
  CHECK(accepted > 100);  // it is not all refused at once
}

}  // namespace
}  // namespace msprobe::io

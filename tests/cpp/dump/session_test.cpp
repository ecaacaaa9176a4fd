// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <string>
#include <vector>

#include "catch.h"
#include "frameworks.h"
#include "msprobe/dump.h"
#include "msprobe/error.h"
#include "recorder_support.h"
#include "temp_dir.h"

using namespace msprobe;
using namespace msprobe::dump;
using namespace msprobe::test;
using trace::RecordKind;

namespace {

trace::TensorElement tensor_of(const std::vector<float>& values, std::vector<std::int64_t>& shape) {
  shape = {static_cast<std::int64_t>(values.size())};
  trace::TensorElement element;
  element.dtype = DType::kFloat32;
  element.shape = shape;
  element.statistics = trace::measure({values.data(), DType::kFloat32, shape, {}}, {});
  return element;
}

void put(ValueWriter& to, const std::vector<float>& values) {
  std::vector<std::int64_t> shape;
  to.out().tensor(tensor_of(values, shape));
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// One tensor in, one out; notes what it was asked for.
struct Values final : CallValues {
  Values(std::vector<float> given, std::vector<float> made) : in(std::move(given)), out(std::move(made)) {}

  void arguments(ValueWriter& to) override {
    asked += "a";
    to.item(0, [&] { put(to, in); });
  }
  void keywords(ValueWriter&) override { asked += "k"; }
  void results(ValueWriter& to) override {
    asked += "r";
    to.item(0, [&] { put(to, out); });
  }
  void parameters(ValueWriter&) override { asked += "p"; }
  void find_arguments() override { asked += "A"; }
  void find_results() override { asked += "R"; }
  trace::StackId stack() override {
    asked += "s";
    return trace::kNoStack;
  }

  std::vector<float> in, out;
  std::string asked;
};

struct Dump {
  explicit Dump(Options options = {}) : session(of_torch(std::move(options))) {
    session.recorder().open(rank);
    session.set_collecting(true);
  }
  static Options of_torch(Options options) {
    options.framework = kTorch;
    return options;
  }

  // What a call of a function was asked for, and whether its backward is watched.
  std::string call(const std::string& name, std::vector<float> in = {1}, std::vector<float> out = {1}) {
    Values values(std::move(in), std::move(out));
    Call call{.name = name};
    session.begin_call(call, values);
    session.end_call(call, values);
    return values.asked + (call.watches_backward ? " watched" : "");
  }
  std::string module(const std::string& name, std::vector<float> in = {1}, std::vector<float> out = {1}) {
    Values values(std::move(in), std::move(out));
    Call call{.name = name};
    session.begin_module(call);
    session.end_module(call, &values);
    return values.asked + (call.watches_backward ? " watched" : "");
  }
  void backward(const std::string& name, bool is_module, float value = 1) {
    trace::ElementWriter out;
    ValueWriter to(out, name);
    put(to, {value});
    const Backward backward{name, is_module, nullptr};
    session.write_backward(backward, session.begin_backward(backward), {out.bytes(), out.worst()},
                           {out.bytes(), out.worst()});
  }

  std::string data() {
    session.end_step();
    session.recorder().close();
    return read_bytes(rank / "dump.json");
  }

  TempDir folder;
  std::filesystem::path rank = folder / "step0/rank";
  Session session;
};

}  // namespace

TEST_CASE("session: a call is asked for what is written of it, once") {
  Dump dump;
  CHECK(dump.call("Torch.add.0.forward") == "sakr watched");
  CHECK(dump.module("Module.a.A.forward.0") == "sakrp watched");
  dump.backward("Torch.add.0.backward", false);
  dump.backward("Module.a.A.backward.0", true);
  const std::string data = dump.data();
  for (const char* name : {"Torch.add.0.forward", "Module.a.A.forward.0", "Torch.add.0.backward",
                           "Module.a.A.backward.0", "parameters"}) {
    CHECK(contains(data, "\"" + std::string(name) + "\""));
  }
}

TEST_CASE(
    "session: parts that are not wanted are not asked for; tensors are found where gradients need them") {
  Options options;
  options.input = false;
  CHECK(Dump(options).call("Torch.add.0.forward") == "sAr watched");
  CHECK(Dump(options).module("Module.a.A.forward.0") == "sArp watched");
  options.backward = false;
  CHECK(Dump(options).call("Torch.add.0.forward") == "sr");
  options = {};
  options.output = false;
  CHECK(Dump(options).call("Torch.add.0.forward") == "sakR watched");
  options = {};
  options.data = false;
  CHECK(Dump(options).call("Torch.add.0.forward") == "sAR watched");
  options = {};
  options.forward = false;
  Dump dump(options);
  CHECK(dump.call("Torch.add.0.forward") == "AR watched");
  CHECK(dump.module("Module.a.A.forward.0") == "AR watched");
  dump.backward("Torch.add.0.backward", false);
  const std::string data = dump.data();
  CHECK_FALSE(contains(data, "forward"));
  CHECK(contains(data, "Torch.add.0.backward"));
}

TEST_CASE("session: what a list leaves out is asked for nothing and has its place all the same") {
  Options options;
  options.list = {"relu"};
  Dump dump(options);
  CHECK(dump.call("Torch.add.0.forward").empty());
  CHECK(dump.call("Torch.relu.0.forward") == "sakr watched");
  dump.backward("Torch.add.0.backward", false);
  const std::string data = dump.data();
  CHECK_FALSE(contains(data, "add"));
  CHECK(contains(construct_of(dump.rank), "\"Torch.add.0.forward\": null"));
  CHECK(contains(construct_of(dump.rank), "\"Torch.add.0.backward\": null"));
}

TEST_CASE("session: collectives have their arguments as results, and no backward") {
  Dump dump;
  Values values({1}, {kNan});
  Call call{.name = "Distributed.all_reduce.0.forward", .returns_arguments = true};
  dump.session.begin_call(call, values);
  dump.session.end_call(call, values);
  CHECK_FALSE(call.watches_backward);
  CHECK(values.asked == "sakr");
  CHECK(dump.session.recorder().report().first_nan.empty());
}

TEST_CASE("session: only what overflows is kept, and with the limit collecting ends") {
  Options options;
  options.only_overflow = true;
  options.overflow_limit = 4;
  Dump dump(options);
  CHECK(dump.call("Torch.add.0.forward") == "akrR watched");
  CHECK(dump.call("Torch.add.1.forward", {kNan}) == "aksakr watched");
  // Its arguments are written when the result is known.
  CHECK(dump.call("Torch.add.2.forward", {1}, {kNan}) == "akrsakr watched");
  CHECK(dump.module("Module.a.A.forward.0").find(" watched") != std::string::npos);  // its backward may
  CHECK(dump.module("Module.b.B.forward.0", {1}, {kNan}) == "akrsakrp watched");
  dump.backward("Torch.add.1.backward", false, 1);
  CHECK(dump.session.is_collecting());
  dump.backward("Torch.add.2.backward", false, kNan);
  CHECK_FALSE(dump.session.is_collecting());
  CHECK(dump.session.has_enough_overflows());
  dump.backward("Torch.add.3.backward", false, kNan);
  const std::string data = dump.data();
  for (const char* name :
       {"Torch.add.1.forward", "Torch.add.2.forward", "Module.b.B.forward.0", "Torch.add.2.backward"}) {
    CHECK(contains(data, "\"" + std::string(name) + "\""));
  }
  for (const char* name :
       {"Torch.add.0.forward", "Module.a.A.forward.0", "Torch.add.1.backward", "Torch.add.3.backward"}) {
    CHECK_FALSE(contains(data, "\"" + std::string(name) + "\""));
  }
}

TEST_CASE("session: only what overflows is kept of the forward alone, too") {
  Options options;
  options.only_overflow = true;
  options.backward = false;
  Dump dump(options);
  dump.call("Torch.add.0.forward", {1}, {kNan});
  CHECK(contains(dump.data(), "Torch.add.0.forward"));
}

TEST_CASE("session: a module that ends by an exception has no record") {
  Dump dump;
  Call outer{.name = "Module.a.A.forward.0"}, inner{.name = "Module.a.b.B.forward.0"};
  dump.session.begin_module(outer);
  dump.session.begin_module(inner);
  dump.session.end_module(inner, nullptr);
  dump.session.end_module(outer, nullptr);
  CHECK_FALSE(outer.watches_backward);
  CHECK(dump.session.recorder().innermost() == nullptr);
  CHECK_FALSE(contains(dump.data(), "Module.a"));
}

TEST_CASE("session: gradients of parameters have one record for each module and step") {
  Dump dump;
  const std::vector<std::string_view> names = {"weight", "bias"};
  std::vector<trace::SlotId> slots(2);
  const Call module{.name = "Module.a.A.forward.3"};
  const auto watched = dump.session.watch_parameters(module, names, slots);
  REQUIRE(watched);
  CHECK(watched->name() == "Module.a.A.parameters_grad");
  CHECK(dump.session.watch_parameters(module, names, slots) == nullptr);
  CHECK(dump.session.watch_parameters({.name = "Module.b.B.forward.0"}, {}, {}) == nullptr);
  CHECK(dump.session.takes_gradient(*watched, trace::Badness::kGood));
  dump.session.recorder().fill(slots[1], one_integer(7));
  CHECK(contains(dump.data(), "\"weight\": [\n    null\n   ],\n   \"bias\": [\n    {\n"));
  dump.session.recorder().open(dump.folder / "step1/rank");
  CHECK(dump.session.watch_parameters(module, names, slots) != nullptr);
}

TEST_CASE("session: under a scope gradients are recorded when one comes inside of it") {
  Options options;
  options.scope = {"Module.a.A.forward.0", "Module.c.C.forward.0"};
  Dump dump(options);
  const std::vector<std::string_view> names = {"weight"};
  std::vector<trace::SlotId> slots(1);
  const auto watched = dump.session.watch_parameters({.name = "Module.b.B.forward.0"}, names, slots);
  REQUIRE(watched);
  CHECK_FALSE(dump.session.takes_gradient(*watched, trace::Badness::kGood));
  CHECK_FALSE(contains(dump.data(), "parameters_grad"));
}

TEST_CASE("session: gradients of parameters are kept that come behind the backward that ends a scope") {
  Options options;
  options.scope = {"Module.b.B.backward.0", "Module.b.B.backward.0"};
  Dump dump(options);
  const std::vector<std::string_view> names = {"weight"};
  std::vector<trace::SlotId> slots(1);
  const auto watched = dump.session.watch_parameters({.name = "Module.b.B.forward.0"}, names, slots);
  const auto other = dump.session.watch_parameters({.name = "Module.a.A.forward.0"}, names, slots);
  dump.backward("Module.b.B.backward.0", true);
  dump.backward("Module.a.A.backward.0", true);
  CHECK(dump.session.takes_gradient(*watched, trace::Badness::kGood));
  CHECK_FALSE(dump.session.takes_gradient(*other, trace::Badness::kGood));
}

TEST_CASE("session: a gradient of a parameter overflows by itself") {
  Options options;
  options.only_overflow = true;
  options.overflow_limit = 2;
  Dump dump(options);
  const std::vector<std::string_view> names = {"weight"};
  std::vector<trace::SlotId> slots(1);
  const auto watched = dump.session.watch_parameters({.name = "Module.b.B.forward.0"}, names, slots);
  REQUIRE(watched);
  CHECK_FALSE(dump.session.takes_gradient(*watched, trace::Badness::kGood));
  CHECK(dump.session.takes_gradient(*watched, trace::Badness::kInfinite));
  CHECK_FALSE(dump.session.has_enough_overflows());
  CHECK(dump.session.takes_gradient(*watched, trace::Badness::kNan));
  CHECK(dump.session.has_enough_overflows());
  CHECK_FALSE(dump.session.takes_gradient(*watched, trace::Badness::kNan));
  CHECK(contains(dump.data(), "Module.b.B.parameters_grad"));
}

TEST_CASE("session: at level L2 one call is wanted, forward or backward") {
  Options options;
  options.level = "L2";
  options.list = {"Module.a.Linear.backward.1"};
  const Dump dump(options);
  using Interest = Session::Interest;
  CHECK(dump.session.wanted() == "Module.a.Linear.backward.1");
  CHECK(dump.session.interest("Module.a.Linear.forward.1") == Interest::kOperators);
  CHECK(dump.session.interest("Module.a.Linear.forward.11") == Interest::kNothing);
  options.list = {"Functional.linear.0.forward"};
  CHECK(Dump(options).session.interest("Functional.linear.0.forward") == Interest::kOperators);
  options.list = {"Functional.linear.0.backward"};
  CHECK(Dump(options).session.interest("Functional.linear.1.forward") == Interest::kNothing);
  CHECK(Dump().session.interest("Functional.linear.1.forward") == Interest::kRecord);
}

TEST_CASE("session: what a script saves is numbered in each step") {
  Options options;
  options.level = "debug";
  Dump dump(options);
  for (int i = 0; i < 2; ++i) {
    const auto names = dump.session.number_saved("loss");
    CHECK(names.value == "loss." + std::to_string(i) + ".debug");
    CHECK(names.gradients == "loss_grad." + std::to_string(i) + ".debug");
    dump.session.write_saved(names.value, [](ValueWriter& to) { to.out().integer(5); });
  }
  dump.session.end_step();
  CHECK(dump.session.number_saved("loss").value == "loss.0.debug");
}

TEST_CASE("session: phases are places at level mix, while collecting") {
  Dump dump;
  dump.session.open_phase("optimizer");
  dump.call("Torch.add.0.forward");
  dump.session.close_phase("optimizer");
  dump.session.set_collecting(false);
  dump.session.open_phase("clip_grad");
  dump.session.close_phase("clip_grad");
  dump.data();
  CHECK(contains(construct_of(dump.rank), "\"Torch.add.0.forward\": \"optimizer\""));
  CHECK_FALSE(contains(construct_of(dump.rank), "clip_grad"));
}

TEST_CASE("element to: values know where they stand, and do not nest without end") {
  trace::ElementWriter out;
  ValueWriter to(out, "Torch.f.0.forward", Files::kAll);
  to.begin("input");
  std::vector<std::string> positions;
  const auto note = [&] {
    positions.emplace_back(to.position());
    to.out().null();
  };
  to.item(0, note);
  to.item(1, [&] { to.list(2, [&](std::size_t) { to.object([&] { to.member("a.b", note); }); }); });
  CHECK(positions == std::vector<std::string>{"input.0", "input.1.0.a.b", "input.1.1.a.b"});
  CHECK(to.position() == "input");

  ValueWriter plain(out);
  plain.begin("output");
  plain.item(3, [&] { CHECK(plain.position() == "output"); });

  std::function<void(int)> nest = [&](int depth) {
    if (depth == 0) return plain.out().null();
    plain.list(1, [&](std::size_t) { nest(depth - 1); });
  };
  CHECK_NOTHROW(plain.item(0, [&] { nest(ValueWriter::kDeepest); }));
  CHECK_THROWS_AS(plain.item(0, [&] { nest(ValueWriter::kDeepest + 1); }), UnsupportedError);
}

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/record_function.h>
#include <torch/torch.h>

#include <regex>
#include <thread>

#include "catch.h"
#include "contains.h"
#include "msprobe/error.h"
#include "msprobe/torch_dump.h"
#include "msprobe/torch_tensors.h"
#include "temp_dir.h"

using msprobe::dump::Options;
using msprobe::test::contains;
using msprobe::test::read_bytes;
using msprobe::test::TempDir;
using msprobe::torch_adapter::CallOperators;
using msprobe::torch_adapter::OperatorRecorder;
using msprobe::torch_adapter::TensorDescriber;

namespace {

Options of_torch(Options options) {
  options.framework = msprobe::torch_adapter::framework();
  return options;
}

struct Dump {
  explicit Dump(Options options = {}) : session(of_torch(std::move(options))) {
    recorder.open(directory / "step0/rank0");
  }

  std::string json(const std::string& name = "dump.json") {
    recorder.flush();
    return read_bytes(directory / "step0/rank0" / name);
  }

  // Keys of dump.json at the level of records, in order.
  std::vector<std::string> names() {
    const std::string text = json();
    const std::regex record("\n  \"([^\"]+)\": \\{");
    std::vector<std::string> result;
    for (std::sregex_iterator at(text.begin(), text.end(), record), end; at != end; ++at) {
      // Matrix products ask for these where a matrix might be conjugated; which ones do depends on the torch.
      if ((*at)[1].str().find("resolve_conj") == std::string::npos) result.push_back((*at)[1]);
    }
    return result;
  }

  // The text of one record.
  std::string record(const std::string& name) {
    const std::string text = json();
    const std::size_t begin = text.find("\n  \"" + name + "\": {");
    return begin == std::string::npos ? "" : text.substr(begin, text.find("\n  }", begin) - begin);
  }

  TempDir directory;
  msprobe::dump::Session session;
  msprobe::dump::Recorder& recorder = session.recorder();
  TensorDescriber describer{session};
  OperatorRecorder operators{session, describer};
};

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("OperatorRecorder: what runs between start and stop is recorded, composites with their parts") {
  Dump dump;
  const at::Tensor x = torch::ones({2, 3}), weight = torch::ones({4, 3});
  x.mul(2);
  dump.operators.start();
  at::linear(x, weight);
  x.add(x, 3);
  dump.operators.stop();
  x.mul(2);
  CHECK(dump.names() == Names{"Aten.linear.0.forward", "Aten.t.0.forward", "Aten.transpose.0.forward",
                              "Aten.as_strided.0.forward", "Aten.matmul.0.forward", "Aten.mm.0.forward",
                              "Aten.add.0.forward"});
  CHECK(dump.operators.recorded() >= 7);
  const std::string add = dump.record("Aten.add.0.forward");
  CHECK(contains(add, "\"alpha\": {\n     \"type\": \"int\",\n     \"value\": 3"));
  CHECK(contains(add, "\"Max\": 4.0"));
  const std::string hierarchy = dump.json("construct.json");
  CHECK(contains(hierarchy, "\"Aten.linear.0.forward\": null"));
  CHECK(contains(hierarchy, "\"Aten.mm.0.forward\": \"Aten.matmul.0.forward\""));
  CHECK(contains(hierarchy, "\"Aten.add.0.forward\": null"));
}

TEST_CASE("OperatorRecorder: nothing is installed outside of a bracket") {
  Dump dump;
  CHECK_FALSE(at::hasCallbacks());
  dump.operators.start();
  dump.operators.start();
  CHECK(at::hasThreadLocalCallbacks());
  CHECK_FALSE(at::hasGlobalCallbacks());
  dump.operators.stop();
  CHECK(at::hasCallbacks());
  dump.operators.stop();
  CHECK_FALSE(at::hasCallbacks());
  dump.operators.stop();  // one too many
  {
    OperatorRecorder forgotten(dump.session, dump.describer);
    forgotten.start();
  }
  CHECK_FALSE(at::hasCallbacks());
}

TEST_CASE("OperatorRecorder: inputs of an operator that works in place hold the old values") {
  Dump dump;
  at::Tensor x = torch::full({3}, 5.0), out = torch::full({3}, 7.0);
  dump.operators.start();
  x.add_(1);
  at::add_out(out, x, x);
  dump.operators.stop();
  const std::string in_place = dump.record("Aten.add_.0.forward");
  CHECK(contains(in_place.substr(0, in_place.find("output")), "\"Max\": 5.0"));
  CHECK(contains(in_place.substr(in_place.find("output")), "\"Max\": 6.0"));
  const std::string into = dump.record("Aten.add.0.forward");
  CHECK(contains(into, "\"out\": null"));
  CHECK(contains(into.substr(into.find("\"output\"")), "\"Max\": 12.0"));
}

TEST_CASE("OperatorRecorder: an operator without results shows what it changed") {
  Dump dump;
  std::vector<at::Tensor> tensors{torch::full({2}, 1.0), torch::full({2}, 2.0)};
  dump.operators.start();
  at::_foreach_add_(tensors, 10);
  dump.operators.stop();
  const std::string record = dump.record("Aten._foreach_add_.0.forward");
  const std::size_t output = record.find("\"output\"");
  REQUIRE(output != std::string::npos);
  CHECK(contains(record.substr(0, output), "\"Max\": 2.0"));
  CHECK(contains(record.substr(output), "\"Max\": 12.0"));
}

TEST_CASE("OperatorRecorder: every kind of argument has its form") {
  Dump dump;
  const at::Tensor x = torch::ones({1, 2, 4, 4});
  dump.operators.start();
  x.to(at::TensorOptions().dtype(at::kHalf).device(at::kCPU), false, true, at::MemoryFormat::ChannelsLast);
  at::full({2, 2}, c10::complex<double>(1, 2), at::TensorOptions().dtype(at::kComplexFloat));
  at::cat({x, x}, 1);
  at::clamp(x, std::nullopt, 0.5);
  at::gelu(x, "tanh");
  at::split(x, 1, 1);
  dump.operators.stop();
  const std::string to = dump.record("Aten.to.0.forward");
  CHECK(contains(to, "\"type\": \"torch.dtype\",\n     \"value\": \"torch.float16\""));
  CHECK(contains(to, "\"type\": \"torch.layout\"") == contains(to, "torch.strided"));
  CHECK(contains(to, "\"type\": \"torch.device\",\n     \"value\": \"cpu:None\""));
  CHECK(contains(to, "\"format\": \"channels_last\""));
  CHECK(contains(dump.record("Aten.full.0.forward"), "\"type\": \"complex\""));
  CHECK(contains(dump.record("Aten.clamp.0.forward"), "\n    null,\n"));
  CHECK(contains(dump.record("Aten.gelu.0.forward"), "\"value\": \"tanh\""));
  CHECK(contains(dump.record("Aten.cat.0.forward"), "\"input_args\": [\n    [\n"));
  CHECK(contains(dump.record("Aten.split.0.forward"), "\"output\": [\n    [\n"));
}

TEST_CASE("OperatorRecorder: memory without values is left out") {
  Dump dump;
  dump.operators.start();
  at::empty({3}).resize_({5});
  at::empty_like(torch::ones({2}));
  dump.operators.stop();
  for (const std::string& name : dump.names()) {
    INFO(name);
    CHECK_FALSE(contains(name, "empty"));
    CHECK_FALSE(contains(name, "resize"));
  }
}

TEST_CASE("OperatorRecorder: an operator that throws has its inputs, and the bracket goes on") {
  Dump dump;
  const at::Tensor x = torch::ones({2, 3});
  dump.operators.start();
  CHECK_THROWS(at::mm(x, x));
  x.neg();
  dump.operators.stop();
  CHECK(dump.names() == Names{"Aten.mm.0.forward", "Aten.neg.0.forward"});
  CHECK(contains(dump.record("Aten.mm.0.forward"), "input_args"));
  CHECK_FALSE(contains(dump.record("Aten.mm.0.forward"), "\"output\""));
  CHECK(contains(dump.json("construct.json"), "\"Aten.neg.0.forward\": null"));
}

TEST_CASE("OperatorRecorder: a backward in the bracket is recorded as such, without operators of ours") {
  Options options;
  options.store_tensors = true;
  Dump dump(options);
  const at::Tensor x = torch::ones({2, 3}, torch::requires_grad()), w = torch::ones({4, 3});
  dump.operators.start();
  at::mm(x, w.t().contiguous()).sum().backward();
  dump.operators.stop();
  const Names names = dump.names();
  CHECK(std::count(names.begin(), names.end(), "Aten.mm.0.backward") == 1);
  CHECK(std::count(names.begin(), names.end(), "Aten.mm.1.backward") == 0);
  // `clone` by contiguous() is the training's; copies for files are none of it.
  CHECK(std::count(names.begin(), names.end(), "Aten.clone.1.forward") == 0);
  CHECK(contains(dump.record("Aten.mm.0.backward"), "\"data_name\": \"Aten.mm.0.backward.input.0.pt\""));
  CHECK(std::filesystem::exists(dump.directory /
                                "step0/rank0/dump_tensor_data/Aten.mm.0.backward.output.0.pt"));
}

TEST_CASE("OperatorRecorder: threads are on their own, a second recorder is refused") {
  Dump dump;
  Dump other;
  const at::Tensor x = torch::ones({3});
  dump.operators.start();
  CHECK_THROWS_AS(other.operators.start(), msprobe::InvalidArgument);
  std::thread([&] { x.neg(); }).join();
  std::thread([&] {
    dump.operators.start();
    x.add(x);
    dump.operators.stop();
  }).join();
  dump.operators.stop();
  CHECK(dump.names() == Names{"Aten.add.0.forward"});
  other.operators.start();
  other.operators.stop();
}

TEST_CASE("OperatorRecorder: numbers begin again with a step") {
  Dump dump;
  const at::Tensor x = torch::ones({3});
  for (const std::string step : {"step0", "step1"}) {
    dump.recorder.open(dump.directory / step / "rank0");
    dump.operators.start();
    x.neg();
    dump.operators.stop();
    dump.operators.end_step();
    dump.recorder.close();
    CHECK(contains(read_bytes(dump.directory / step / "rank0/dump.json"), "Aten.neg.0.forward"));
  }
}

TEST_CASE("CallOperators: a forward shows its own operators below its name") {
  Dump dump;
  const at::Tensor x = torch::ones({2, 3}), weight = torch::ones({3, 3});
  at::mm(x, weight);
  {
    CallOperators call(dump.operators, "Functional.f.0.forward", {x, weight});
    call.finish({at::mm(x, weight)});
  }
  at::mm(x, weight);
  CHECK(dump.names() == Names{"Aten.mm.0.forward"});
  CHECK(contains(dump.json("construct.json"), "\"Aten.mm.0.forward\": \"Functional.f.0.forward\""));
  try {
    const CallOperators call(dump.operators, "Functional.f.0.forward", {x, weight});
    throw 1;
  } catch (int) {
    CHECK_FALSE(at::hasCallbacks());
  }
}

TEST_CASE("CallOperators: a backward shows the operators of that call's nodes, and changes no bit") {
  torch::manual_seed(3);
  const at::Tensor x = torch::randn({5, 3}), w1 = torch::randn({4, 3}), w2 = torch::randn({6, 4});
  const auto train = [&](Dump* dump) {
    const at::Tensor a = x.clone().requires_grad_(), b = w1.clone().requires_grad_(),
                     c = w2.clone().requires_grad_();
    const at::Tensor hidden = at::linear(a, b).tanh();
    at::Tensor result;
    if (dump != nullptr) {
      CallOperators call(dump->operators, "Functional.linear.1.backward", {hidden, c});
      result = at::linear(hidden, c);
      call.finish({result});
      CHECK_FALSE(at::hasCallbacks());
    } else {
      result = at::linear(hidden, c);
    }
    result.relu().pow(2).sum().backward();
    CHECK_FALSE(at::hasCallbacks());
    return std::vector<at::Tensor>{a.grad(), b.grad(), c.grad()};
  };
  const auto plain = train(nullptr);
  Dump dump;
  const auto watched = train(&dump);
  for (std::size_t i = 0; i < plain.size(); ++i) CHECK(at::equal(plain[i], watched[i]));
  const Names names = dump.names();
  CHECK(std::count(names.begin(), names.end(), "Aten.mm.0.backward") == 1);
  CHECK(std::count(names.begin(), names.end(), "Aten.mm.1.backward") == 1);
  for (const std::string& name : names) {
    INFO(name);
    CHECK(contains(name, ".backward"));
    CHECK_FALSE(contains(name, "Aten.mm.2"));
    for (const std::string other : {"tanh", "threshold", "pow", "sum"}) CHECK_FALSE(contains(name, other));
  }
  CHECK(contains(dump.json("construct.json"), "\"Aten.mm.0.backward\": \"Functional.linear.1.backward\""));
}

TEST_CASE("CallOperators: a backward that throws leaves nothing behind") {
  struct Thrower : torch::autograd::Function<Thrower> {
    static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x * 2; }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                   torch::autograd::variable_list gradients) {
      gradients[0].neg();
      throw std::runtime_error("a fault of the user");
    }
  };
  Dump dump;
  const at::Tensor x = torch::ones({2}, torch::requires_grad());
  CallOperators call(dump.operators, "Torch.f.0.backward", {x});
  const at::Tensor y = Thrower::apply(x);
  call.finish({y});
  CHECK_THROWS(y.sum().backward());
  CHECK_FALSE(at::hasCallbacks());
  x.abs();
  CHECK(dump.names() == Names{"Aten.neg.0.backward"});
  CHECK(dump.recorder.innermost() == nullptr);
}

TEST_CASE(
    "CallOperators: a graph that is kept shows its second backward as well, and none in the next step") {
  Dump dump;
  const at::Tensor x = torch::ones({2}, torch::requires_grad());
  CallOperators call(dump.operators, "Torch.sin.0.backward", {x});
  const at::Tensor y = x.sin();
  call.finish({y});
  const at::Tensor loss = y.sum();
  loss.backward({}, /*retain_graph=*/true);
  loss.backward({}, /*retain_graph=*/true);
  const Names expected{"Aten.cos.0.backward", "Aten.mul.0.backward", "Aten.cos.1.backward",
                       "Aten.mul.1.backward"};
  CHECK(dump.names() == expected);
  dump.operators.end_step();
  loss.backward();
  CHECK(dump.names() == expected);
}

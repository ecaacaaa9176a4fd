// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <filesystem>
#include <string>
#include <vector>

#include "catch.h"
#include "contains.h"
#include "log_capture.h"
#include "msprobe/error.h"
#include "msprobe/torch_debugger.h"
#include "temp_dir.h"
#include "torch/network.h"

using namespace msprobe;
using msprobe::test::contains;
using msprobe::test::Network;
using msprobe::test::read_bytes;
using msprobe::test::TempDir;
using msprobe::test::write_bytes;
using msprobe::torch_adapter::PrecisionDebugger;

namespace {

namespace fs = std::filesystem;

// A folder with a configuration whose dump_path is `out` below it.
class Place {
 public:
  explicit Place(const std::string& keys) {
    write_bytes(dir_ / "config.json", "{\"dump_path\": \"" + out().string() + "\", " + keys + "}");
  }
  fs::path config() const { return dir_ / "config.json"; }
  fs::path out() const { return dir_ / "out"; }
  std::string read(const std::string& name) const { return read_bytes(out() / name); }

 private:
  TempDir dir_;
};

std::vector<at::Tensor> train(PrecisionDebugger& debugger, int steps, float scale = 1) {
  torch::manual_seed(5);
  Network network;
  torch::optim::SGD optimizer(network->parameters(), 0.1);
  debugger.monitor(*network);
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    debugger.start(*network);
    network->forward(debugger, torch::randn({6, 3}) * scale).sum().backward();
    optimizer.step();
    debugger.stop();
    debugger.step();
  }
  return network->parameters();
}

std::string refusal(const std::string& keys) {
  const Place place(keys);
  try {
    const PrecisionDebugger debugger(place.config());
  } catch (const UnsupportedError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("PrecisionDebugger: a dump of the steps that are wanted, and no bit of the training changes") {
  const Place place(R"("task": "statistics", "level": "mix", "step": [1, 2])");
  const Place nothing(R"("step": [100])");
  PrecisionDebugger off(nothing.config());
  const auto plain = train(off, 4);
  PrecisionDebugger debugger(place.config(), {}, 0);
  const auto watched = train(debugger, 4);
  for (std::size_t i = 0; i < plain.size(); ++i) CHECK(at::equal(plain[i], watched[i]));
  CHECK_FALSE(fs::exists(nothing.out()));
  CHECK_FALSE(fs::exists(place.out() / "step0"));
  CHECK_FALSE(fs::exists(place.out() / "step3"));
  for (const std::string step : {"step1", "step2"}) {
    const std::string data = place.read(step + "/rank0/dump.json");
    CHECK(contains(data, "\"task\": \"statistics\""));
    CHECK(contains(data, "\"level\": \"mix\""));
    for (const char* name : {"Module.first.Linear.forward.0", "Module.second.Linear.backward.0",
                             "Module.first.Linear.parameters_grad", "Aten.addmm.1.forward"}) {
      INFO(step << " " << name);
      CHECK(contains(data, "\"" + std::string(name) + "\": {"));
    }
    CHECK_FALSE(contains(data, "Network"));  // the model itself has no name, as in Python
    CHECK(contains(place.read(step + "/rank0/construct.json"),
                   "\"Aten.addmm.1.forward\": \"Module.second.Linear.forward.0\""));
  }
}

TEST_CASE("PrecisionDebugger: levels and filters") {
  const Place modules(R"("level": "L0")");
  PrecisionDebugger of_modules(modules.config());
  train(of_modules, 1);
  CHECK(contains(modules.read("step0/rank/dump.json"), "Module.first.Linear.forward.0"));
  CHECK_FALSE(contains(modules.read("step0/rank/dump.json"), "Aten."));

  const Place listed(R"("level": "L1", "statistics": {"list": ["addmm.1"], "summary_mode": "md5"})");
  PrecisionDebugger of_operators(listed.config());
  train(of_operators, 1);
  const std::string data = listed.read("step0/rank/dump.json");
  CHECK(contains(data, "\"Aten.addmm.1.forward\": {"));
  CHECK(contains(data, "\"md5\": \""));
  CHECK_FALSE(contains(data, "Aten.addmm.0"));
  CHECK_FALSE(contains(data, "Module."));

  const Place names(R"("task": "structure")");
  PrecisionDebugger of_names(names.config());
  train(of_names, 1);
  CHECK(contains(names.read("step0/rank/construct.json"), "Module.first.Linear.forward.0"));
  CHECK_FALSE(contains(names.read("step0/rank/dump.json"), "Max"));

  const Place tensors(
      R"("task": "tensor", "level": "L0", "tensor": {"tensor_format": "npy", "data_mode": ["forward"]})");
  PrecisionDebugger of_tensors(tensors.config());
  train(of_tensors, 1);
  CHECK(
      fs::exists(tensors.out() / "step0/rank/dump_tensor_data/Module.second.Linear.forward.0.output.0.npy"));
  CHECK_FALSE(contains(tensors.read("step0/rank/dump.json"), "backward"));
}

TEST_CASE("PrecisionDebugger: overflow_check keeps modules with a NaN or an infinity, up to a number") {
  const Place place(R"("task": "overflow_check", "level": "L0", "overflow_check": {"overflow_nums": 2})");
  PrecisionDebugger debugger(place.config());
  train(debugger, 2, std::numeric_limits<float>::infinity());
  const std::string data = place.read("step0/rank/dump.json");
  CHECK(contains(data, "Module.first.Linear.forward.0"));
  CHECK(contains(data, "Module.second.Linear.forward.0"));
  CHECK_FALSE(fs::exists(place.out() / "step1"));

  const Place good(R"("task": "overflow_check", "level": "L0")");
  PrecisionDebugger of_good(good.config());
  train(of_good, 1);
  CHECK_FALSE(contains(good.read("step0/rank/dump.json"), "Linear.forward"));
}

TEST_CASE("PrecisionDebugger: the gradients of a model, and of its parameters by name") {
  const Place place(R"("task": "grad_probe", "step": [0, 2],
                       "grad_probe": {"grad_level": "L2", "param_list": ["first.weight"], "bounds": [-0.1, 0, 1e16]})");
  const Place nothing(R"("step": [100])");
  PrecisionDebugger off(nothing.config());
  const auto plain = train(off, 3);
  {
    PrecisionDebugger debugger(place.config(), {}, 3);
    const auto watched = train(debugger, 3);
    for (std::size_t i = 0; i < plain.size(); ++i) CHECK(at::equal(plain[i], watched[i]));
  }
  const std::string table = place.read("rank3/grad_summary_2.csv");
  CHECK(contains(table, "-0.1"));
  CHECK(contains(table, "1e+16"));
  CHECK(contains(table, "first.weight"));
  CHECK_FALSE(contains(table, "first.bias"));
  CHECK(fs::exists(place.out() / "rank3/grad_summary_0.csv"));
  CHECK_FALSE(fs::exists(place.out() / "rank3/grad_summary_1.csv"));
}

TEST_CASE("PrecisionDebugger: save() at level debug") {
  const Place place(R"("level": "debug")");
  PrecisionDebugger debugger(place.config());
  for (int step = 0; step < 2; ++step) {
    const at::Tensor x = torch::ones({2, 3}, torch::requires_grad());
    debugger.save(x, "x");
    debugger.save(x * 2, "x", false);
    (x * 3).sum().backward();
    debugger.step();
  }
  for (const std::string step : {"step0", "step1"}) {
    const std::string data = place.read(step + "/rank/debug.json");
    CHECK(contains(data, "\"x.0.debug\": {"));
    CHECK(contains(data, "\"x.1.debug\": {"));
    CHECK(contains(data, "\"x_grad.0.debug\": {"));
    CHECK(contains(data, "\"Max\": 3.0"));
    CHECK_FALSE(contains(data, "x_grad.1"));
    CHECK_FALSE(contains(data, "x.2"));
  }
}

TEST_CASE("PrecisionDebugger: ranks, the number of a step, and a relative folder") {
  const Place place(R"("rank": [1])");
  for (const auto rank : {std::optional<int>(), std::optional<int>(0), std::optional<int>(1)}) {
    PrecisionDebugger debugger(place.config(), {}, rank);
    debugger.set_init_step(7);
    train(debugger, 1);
    CHECK_THROWS_AS(debugger.set_init_step(-1), InvalidArgument);
  }
  CHECK(fs::exists(place.out() / "step7/rank1/dump.json"));
  CHECK_FALSE(fs::exists(place.out() / "step7/rank0"));
  CHECK_FALSE(fs::exists(place.out() / "step7/rank"));

  const TempDir elsewhere;
  const fs::path before = fs::current_path();
  fs::current_path(place.out());
  PrecisionDebugger debugger("", {.dump_path = {std::string("relative")}});
  fs::current_path(elsewhere.path());
  train(debugger, 1);
  fs::current_path(before);
  CHECK(fs::exists(place.out() / "relative/step0/rank/dump.json"));
}

TEST_CASE("PrecisionDebugger: what a C++ program cannot do is said at once") {
  CHECK(contains(refusal(R"("task": "tensor", "level": "L2", "tensor": {"list": ["a"]})"),
                 "level L2 needs Python"));
  CHECK(contains(refusal(R"("enable_dataloader": true)"), "there is no data loader to watch"));
  CHECK(contains(refusal(R"("async_dump": true)"), "expected \"async_dump\": false"));
  CHECK(contains(refusal(R"("task": "overflow_check")"), "expected level L0, found L1"));
  CHECK(contains(refusal(R"("task": "free_benchmark")"), "task free_benchmark needs Python"));
  CHECK(contains(refusal(R"("task": "run_ut")"), "command msprobe run_ut"));
  const test::LogCapture log;
  CHECK(refusal(R"("statistics": {"diagnosis": ["rng"]})") == "accepted");
  CHECK(log.warnings() == std::vector<std::string>{"\"diagnosis\" has no effect in a C++ program"});
  const Place place(R"("level": "L0")");
  PrecisionDebugger debugger(place.config());
  CHECK_THROWS_AS(debugger.start(), InvalidArgument);
}

TEST_CASE("PrecisionDebugger: a folder that cannot be written never stops the training") {
  const Place place(R"("level": "L0")");
  fs::create_directories(place.out() / "step0");
  write_bytes(place.out() / "step0/rank", "a file");
  PrecisionDebugger debugger(place.config());
  const test::LogCapture log;
  train(debugger, 2);
  REQUIRE(log.warnings().size() == 1);
  CHECK(contains(log.warnings()[0], "step 0 is not recorded: "));
  CHECK(fs::exists(place.out() / "step1/rank/dump.json"));
}

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include "catch.h"
#include "contains.h"
#include "msprobe/torch_dump.h"
#include "temp_dir.h"
#include "torch/network.h"

using msprobe::test::contains;
using msprobe::test::Network;
using msprobe::test::read_bytes;
using msprobe::test::TempDir;
using msprobe::torch_adapter::ModuleScope;
using msprobe::torch_adapter::ProgramDump;

namespace {

std::vector<at::Tensor> train(ProgramDump& dump, bool operators) {
  torch::manual_seed(5);
  Network network;
  const at::Tensor x = torch::randn({6, 3}, torch::requires_grad());
  if (operators) dump.operators().start();
  network->forward(dump, x).sum().backward();
  if (operators) dump.operators().stop();
  std::vector<at::Tensor> gradients{x.grad()};
  for (const at::Tensor& parameter : network->parameters()) gradients.push_back(parameter.grad());
  return gradients;
}

}  // namespace

TEST_CASE(
    "ProgramDump: modules, operators and gradients are in the files, and no bit of the training changes") {
  const TempDir directory;
  ProgramDump dump;
  const auto plain = train(dump, false);  // no step is open: nothing is recorded
  for (const std::string step : {"step0", "step1"}) {
    dump.open(directory / step / "rank0");
    const auto watched = train(dump, true);
    dump.close();
    REQUIRE(plain.size() == watched.size());
    for (std::size_t i = 0; i < plain.size(); ++i) CHECK(at::equal(plain[i], watched[i]));
    const std::string data = read_bytes(directory / step / "rank0/dump.json");
    for (const char* name : {"Module.net.Network.forward.0", "Module.net.first.Linear.forward.0",
                             "Module.net.second.Linear.backward.0", "Module.net.Network.backward.0",
                             "Module.net.first.Linear.parameters_grad", "Aten.addmm.1.forward",
                             "Aten.relu_.0.forward", "Aten.mm.2.backward"}) {
      INFO(step << " " << name);
      CHECK(contains(data, "\n  \"" + std::string(name) + "\": {"));
    }
    CHECK_FALSE(contains(data, "Linear.forward.1"));
    const std::string hierarchy = read_bytes(directory / step / "rank0/construct.json");
    CHECK(contains(hierarchy, "\"Module.net.second.Linear.forward.0\": \"Module.net.Network.forward.0\""));
    CHECK(contains(hierarchy, "\"Aten.addmm.1.forward\": \"Module.net.second.Linear.forward.0\""));
    CHECK(contains(hierarchy, "\"Module.net.first.Linear.backward.0\": \"Module.net.Network.backward.0\""));
  }
  CHECK_FALSE(std::filesystem::exists(directory / "step2"));
}

TEST_CASE("ModuleScope: a call that throws has no record, and what follows is not below it") {
  const TempDir directory;
  ProgramDump dump;
  dump.open(directory / "step0/rank0");
  torch::nn::Linear layer(3, 4);
  try {
    ModuleScope scope(dump, "broken", *layer, {torch::ones({2, 5})});
    (void)scope.output(layer(torch::ones({2, 5})));
    FAIL("a matrix of the wrong shape was multiplied");
  } catch (const c10::Error&) {
    ModuleScope scope(dump, "fine", *layer, {torch::ones({2, 3})});
    (void)scope.output(layer(torch::ones({2, 3})));
  }
  dump.close();
  const std::string data = read_bytes(directory / "step0/rank0/dump.json");
  CHECK_FALSE(contains(data, "Module.broken"));
  CHECK(contains(data, "Module.fine.Linear.forward.0"));
  CHECK(contains(read_bytes(directory / "step0/rank0/construct.json"),
                 "\"Module.fine.Linear.forward.0\": null"));
}

TEST_CASE("ModuleScope: several results, several calls of one module") {
  const TempDir directory;
  ProgramDump dump;
  dump.open(directory / "step0/rank0");
  torch::nn::Dropout layer;
  for (int call = 0; call < 2; ++call) {
    ModuleScope scope(dump, "drop", *layer, {torch::ones({2}), at::Tensor()});
    scope.output({torch::zeros({3}), torch::ones({4})});
    scope.output({torch::zeros({3})});  // over already
  }
  dump.close();
  const std::string data = read_bytes(directory / "step0/rank0/dump.json");
  CHECK(contains(data, "Module.drop.Dropout.forward.1"));
  CHECK_FALSE(contains(data, "Module.drop.Dropout.forward.2"));
  CHECK(contains(data, "\"parameters\": {}"));
}

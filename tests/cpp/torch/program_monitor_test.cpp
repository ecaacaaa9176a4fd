// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <cmath>
#include <limits>

#include "catch.h"
#include "contains.h"
#include "msprobe/error.h"
#include "msprobe/monitor_store.h"
#include "msprobe/torch_program_monitor.h"
#include "temp_dir.h"

using msprobe::monitor::StoreReader;
using msprobe::test::contains;
using msprobe::test::read_bytes;
using msprobe::test::TempDir;
using msprobe::torch_adapter::ProgramMonitor;

namespace {

struct MonitoredTraining {
  MonitoredTraining() {
    torch::manual_seed(3);
    model = torch::nn::Sequential(torch::nn::Linear(4, 6), torch::nn::Tanh(), torch::nn::Linear(6, 2));
    optimizer = std::make_unique<torch::optim::AdamW>(model->parameters(), torch::optim::AdamWOptions(1e-2));
  }

  // `spoil`: the step whose first gradient gets a NaN. Returns the norms of the first gradient.
  std::vector<double> train(ProgramMonitor* monitor, int steps, int spoil = -1) {
    std::vector<double> norms;
    for (int step = 0; step < steps; ++step) {
      optimizer->zero_grad();
      const at::Tensor loss = model->forward(torch::randn({5, 4})).square().mean();
      loss.backward();
      at::Tensor gradient = model->parameters().front().grad();
      if (step == spoil) gradient.view(-1)[0] = std::numeric_limits<double>::quiet_NaN();
      norms.push_back(gradient.norm().item<double>());
      if (monitor != nullptr) monitor->before_update();
      optimizer->step();
      if (monitor != nullptr) monitor->after_update({{"loss", loss.item<double>()}});
    }
    return norms;
  }

  torch::nn::Sequential model;
  std::unique_ptr<torch::optim::AdamW> optimizer;
};

std::vector<double> column(const StoreReader& reader, const std::string& key) {
  const auto series = reader.series();
  for (std::uint32_t i = 0; i < series.size(); ++i) {
    if (series[i].key() == key) return reader.values(std::span(&i, 1), 0, 1000).numbers.front();
  }
  FAIL("there is no series " << key);
  return {};
}

}  // namespace

TEST_CASE("ProgramMonitor: the numbers are those of the training, which stays the same to the last bit") {
  const TempDir directory;
  MonitoredTraining plain;
  const std::vector<double> norms = plain.train(nullptr, 4);
  MonitoredTraining watched;
  {
    ProgramMonitor monitor(*watched.model, *watched.optimizer, directory / "run", {.updates = true});
    watched.train(&monitor, 4);
    CHECK(monitor.step() == 4);
    CHECK(monitor.is_open());
  }
  const auto a = plain.model->parameters();
  const auto b = watched.model->parameters();
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(at::equal(a[i], b[i]));
  const StoreReader reader(directory / "run/monitor.db");
  const std::vector<double> found = column(reader, "gradient.norm/0.weight");
  REQUIRE(found.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(std::abs(found[i] / norms[i] - 1) < 1e-6);
  CHECK(column(reader, "loss").size() == 4);
  CHECK(std::abs(column(reader, "weight.norm/2.bias").back() /
                     watched.model->parameters().back().norm().item<double>() -
                 1) < 1e-6);
  CHECK(column(reader, "moment.norm").back() > 0);
  CHECK(column(reader, "update.ratio/0.weight").back() > 0);
  CHECK_FALSE(std::filesystem::exists(directory / "run/alarms.jsonl"));
}

TEST_CASE("ProgramMonitor: a NaN is an alarm, and who is told may fail") {
  const TempDir directory;
  MonitoredTraining training;
  int told = 0;
  ProgramMonitor::Options options;
  options.on_alarm = [&](const auto&, const std::string&, const std::string&) {
    ++told;
    throw std::runtime_error("mine");
  };
  ProgramMonitor monitor(*training.model, *training.optimizer, directory / "run", options);
  training.train(&monitor, 6, 3);
  CHECK(told == 1);
  CHECK(monitor.is_open());
  const std::string alarms = read_bytes(directory / "run/alarms.jsonl");
  CHECK(contains(alarms, R"("step": 3, "rule": "nonfinite", "series": "gradient.norm)"));
  CHECK(contains(alarms, R"("value": "NaN")"));
}

TEST_CASE("ProgramMonitor: a training that goes on has no step twice, another one begins anew") {
  const TempDir directory;
  MonitoredTraining training;
  {
    ProgramMonitor monitor(*training.model, *training.optimizer, directory / "run");
    training.train(&monitor, 5);
  }
  {
    ProgramMonitor monitor(*training.model, *training.optimizer, directory / "run", {.start = 3, .every = 2});
    training.train(&monitor, 4);
  }
  const StoreReader reader(directory / "run/monitor.db");
  const std::uint32_t first = 0;
  CHECK(reader.values(std::span(&first, 1), 0, 100).steps == std::vector<std::int64_t>{0, 1, 2, 3, 5});
  const ProgramMonitor again(*training.model, *training.optimizer, directory / "run");
  CHECK(StoreReader(directory / "run/monitor.db.1").extent().steps == 5);
  CHECK_THROWS_AS(ProgramMonitor(*training.model, *training.optimizer, directory / "x", {.every = 0}),
                  msprobe::InvalidArgument);
}

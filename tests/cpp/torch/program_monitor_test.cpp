// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <cmath>
#include <limits>

#include "catch.h"
#include "contains.h"
#include "monitored_training.h"
#include "msprobe/error.h"
#include "msprobe/monitor.h"
#include "msprobe/torch_program_monitor.h"
#include "temp_dir.h"

using msprobe::monitor::StoreReader;
using msprobe::test::column_of;
using msprobe::test::contains;
using msprobe::test::MonitoredTraining;
using msprobe::test::read_bytes;
using msprobe::test::TempDir;
using msprobe::torch_adapter::ProgramMonitor;

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
  const std::vector<double> found = column_of(reader, "gradient.norm/0.weight");
  REQUIRE(found.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(std::abs(found[i] / norms[i] - 1) < 1e-6);
  CHECK(column_of(reader, "loss").size() == 4);
  CHECK(std::abs(column_of(reader, "weight.norm/2.bias").back() /
                     watched.model->parameters().back().norm().item<double>() -
                 1) < 1e-6);
  CHECK(column_of(reader, "moment.norm").back() > 0);
  CHECK(column_of(reader, "update.ratio/0.weight").back() > 0);
  CHECK_FALSE(std::filesystem::exists(directory / "run/alarms.jsonl"));
}

TEST_CASE("ProgramMonitor: activations, attention and experts that a program hands over") {
  const TempDir directory;
  MonitoredTraining training;
  const at::Tensor first = torch::randn({8, 4});
  const at::Tensor second = torch::randn({8, 4});
  const at::Tensor scores = torch::randn({2, 3, 5, 5});
  const at::Tensor query = torch::randn({2, 3, 5, 4});
  const at::Tensor key = torch::randn({2, 3, 5, 4});
  const at::Tensor logits =
      torch::eye(4).index_select(0, torch::tensor({0, 0, 0, 1})) * 9;  // 2 of 4 are used
  const at::Tensor evaluated = torch::full({3}, 1e6);
  {
    ProgramMonitor::Options options;
    options.every = 2;
    ProgramMonitor monitor(*training.model, *training.optimizer, directory / "run", options);
    for (int step = 0; step < 3; ++step) {
      CHECK(monitor.activation("layers.0.up", first).is_same(first));  // two micro batches
      monitor.activation("layers.0.up", second);
      monitor.attention_scores("layers.0.attention", scores);
      monitor.attention("layers.1.attention", query, key, {}, true);
      monitor.experts("layers.0.gate", logits, 1);
      monitor.experts("layers.1.gate", logits, 9);  // a warning, once
      monitor.activation("layers.1.up", {});
      {
        const c10::NoGradGuard evaluation;
        monitor.activation("layers.0.up", evaluated);
      }
      monitor.before_update();
      monitor.after_update();
    }
    CHECK(monitor.is_open());
  }
  const StoreReader reader(directory / "run/monitor.db");
  const auto last = [&](const std::string& key) { return column_of(reader, key).back(); };
  const at::Tensor both = torch::cat({first, second});
  const double rms = both.square().mean().sqrt().item<double>();
  CHECK(column_of(reader, "activation.rms/layers.0.up").size() == 2);  // steps 0 and 2
  CHECK(std::abs(last("activation.rms/layers.0.up") / rms - 1) < 1e-6);
  CHECK(last("activation.abs_max/layers.0.up") == both.abs().max().item<float>());
  CHECK(last("attention_logit.max/layers.0.attention") == scores.max().item<float>());
  const at::Tensor p = torch::softmax(scores, -1);
  const double entropy = -(p * p.log()).sum(-1).mean().item<double>();
  CHECK(std::abs(last("attention_entropy.mean/layers.0.attention") / entropy - 1) < 1e-5);
  CHECK(std::abs(last("attention_entropy.min/layers.1.attention")) < 1e-6);  // the first query sees one key
  CHECK(last("expert_load.dead/layers.0.gate") == 0.5);
  CHECK(last("expert_load.largest/layers.0.gate") == 3);
  CHECK(last("router_probability.min/layers.0.gate") > 0.3);
  for (const auto& one : reader.series()) {
    CHECK(one.name != "layers.1.gate");
    CHECK(one.name != "layers.1.up");
    if (one.name == "layers.0.gate") {
      CHECK(one.scope == "module");
      CHECK(one.layer == 0);
    }
  }
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

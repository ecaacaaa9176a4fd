// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// The training of tests/python/monitoring/test_program_series.py in C++: the same series, with the same units
// and values.
#include <torch/torch.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <tuple>

#include "catch.h"
#include "msprobe/monitor.h"
#include "msprobe/torch_program_monitor.h"
#include "temp_dir.h"

using msprobe::monitor::StoreReader;
using msprobe::test::TempDir;
using msprobe::torch_adapter::ProgramMonitor;

namespace {

constexpr std::int64_t kExpertsOfSeries = 3;

// Attention of one head, and experts behind a router.
struct SeriesLayerImpl : torch::nn::Module {
  SeriesLayerImpl() {
    up = register_module("up", torch::nn::Linear(4, 6));
    gate = register_module("gate", torch::nn::Linear(6, kExpertsOfSeries));
    experts = register_module("experts", torch::nn::ModuleList());
    for (std::int64_t i = 0; i < kExpertsOfSeries; ++i) experts->push_back(torch::nn::Linear(6, 4));
  }

  at::Tensor forward(ProgramMonitor& monitor, const std::string& name, const at::Tensor& x) {
    at::Tensor h = monitor.activation(name + ".up", up(x)).unsqueeze(1);
    monitor.attention(name, h, h, {}, true);
    h = torch::scaled_dot_product_attention(h, h, h, {}, 0.0, true).squeeze(1);
    const at::Tensor logits = monitor.activation(name + ".gate", gate(h));  // is no target
    monitor.experts(name + ".gate", logits, 2);
    const at::Tensor chance = torch::softmax(logits, -1);
    at::Tensor sum;
    for (std::int64_t i = 0; i < kExpertsOfSeries; ++i) {
      const at::Tensor part = experts[static_cast<std::size_t>(i)]->as<torch::nn::Linear>()->forward(h) *
                              chance.slice(-1, i, i + 1);
      sum = i == 0 ? part : sum + part;
    }
    return x + sum;
  }

  torch::nn::Linear up{nullptr};
  torch::nn::Linear gate{nullptr};
  torch::nn::ModuleList experts;
};
TORCH_MODULE(SeriesLayer);

// Numbers that every program has.
at::Tensor filled(at::IntArrayRef shape, double shift) {
  const std::int64_t count = c10::multiply_integers(shape);
  return torch::sin(torch::arange(count, torch::kDouble) + shift).reshape(shape) / 2;
}

struct SeriesModel : torch::nn::Module {
  SeriesModel() {
    layers = register_module("layers", torch::nn::ModuleList(SeriesLayer(), SeriesLayer()));
    to(torch::kDouble);
    const torch::NoGradGuard no_grad;
    double shift = 0;
    for (const auto& parameter : parameters()) parameter.copy_(filled(parameter.sizes(), shift++));
  }
  torch::nn::ModuleList layers;
};

torch::optim::AdamW optimizer_of(const SeriesModel& model) {
  std::vector<at::Tensor> weights;
  std::vector<at::Tensor> biases;
  for (const auto& item : model.named_parameters()) {
    (item.key().ends_with("weight") ? weights : biases).push_back(item.value());
  }
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(weights, std::make_unique<torch::optim::AdamWOptions>(1e-2));
  groups.emplace_back(biases, std::make_unique<torch::optim::AdamWOptions>(1e-3));
  return torch::optim::AdamW(groups, torch::optim::AdamWOptions(1e-3));
}

void train_recorded(const std::filesystem::path& folder) {
  SeriesModel model;
  torch::optim::AdamW optimizer = optimizer_of(model);
  ProgramMonitor::Options options;
  options.updates = options.directions = options.activation_gradients = options.spectra = true;
  options.targets = {"*.up", "*.up.*"};
  options.matrix_every = 2;
  options.attention_queries = 4;
  ProgramMonitor monitor(model, optimizer, folder, options);
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    double sum = 0;
    for (int micro = 0; micro < 2; ++micro) {
      at::Tensor x = filled({2, 5, 4}, 7.0 * step + 3.0 * micro);
      for (std::size_t i = 0; i < 2; ++i) {
        x = model.layers[i]->as<SeriesLayer>()->forward(monitor, "layers." + std::to_string(i), x);
      }
      const at::Tensor loss = x.square().mean();
      loss.backward();
      sum += loss.item<double>();
    }
    monitor.communication("all_reduce", model.named_parameters()["layers.0.up.weight"].grad());
    monitor.add("temperature", 1.5 + step);
    monitor.before_update();
    optimizer.step();
    monitor.after_update({{"loss", sum}});
  }
  CHECK(monitor.is_open());
}

struct SeriesNumber {
  std::string scope;
  std::string layer;
  std::string unit;
  std::string value;
};
using SeriesNumbers = std::map<std::pair<std::int64_t, std::string>, SeriesNumber>;

SeriesNumbers numbers_of_python() {
  std::ifstream file(MSPROBE_TEST_DATA "/monitor/program_series.csv");
  std::string line;
  std::getline(file, line);
  SeriesNumbers numbers;
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    std::string step;
    std::string key;
    SeriesNumber one;
    for (std::string* cell : {&step, &key, &one.scope, &one.layer, &one.unit, &one.value}) {
      std::getline(cells, *cell, ',');
    }
    numbers.emplace(std::pair(std::stoll(step), key), one);
  }
  return numbers;
}

}  // namespace

TEST_CASE("ProgramMonitor: series, units and values are those of Python") {
  const TempDir directory;
  train_recorded(directory / "run");
  SeriesNumbers expected = numbers_of_python();
  REQUIRE(expected.size() > 400);
  const StoreReader reader(directory / "run/monitor.db");
  const auto series = reader.series();
  for (std::uint32_t i = 0; i < series.size(); ++i) {
    const auto values = reader.values(std::span(&i, 1), 0, 100);
    for (std::size_t row = 0; row < values.steps.size(); ++row) {
      const double value = values.numbers[0][row];
      if (msprobe::monitor::is_absent(value)) continue;
      INFO("step " << values.steps[row] << ", " << series[i].key());
      const auto known = expected.find({values.steps[row], series[i].key()});
      REQUIRE(known != expected.end());
      CHECK(series[i].scope == known->second.scope);
      CHECK(std::to_string(series[i].layer) == known->second.layer);
      CHECK(series[i].unit == known->second.unit);
      if (series[i].key() != "step_seconds") {
        const double wanted = std::stod(known->second.value);
        CHECK(std::abs(value - wanted) <= 1e-5 * std::abs(wanted) + 1e-9);
      } else {
        CHECK(value > 0);
      }
      expected.erase(known);
    }
  }
  for (const auto& [key, number] : expected) FAIL_CHECK("step " << key.first << ": no " << key.second);
}

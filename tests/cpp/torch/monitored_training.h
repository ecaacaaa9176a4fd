// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "catch.h"
#include "msprobe/monitor.h"
#include "msprobe/torch_program_monitor.h"

namespace msprobe::test {

/// A small training that a ProgramMonitor looks at, or nobody.
struct MonitoredTraining {
  MonitoredTraining() {
    torch::manual_seed(3);
    model = torch::nn::Sequential(torch::nn::Linear(4, 6), torch::nn::Tanh(), torch::nn::Linear(6, 2));
    optimizer = std::make_unique<torch::optim::AdamW>(model->parameters(), torch::optim::AdamWOptions(1e-2));
  }

  /// The first layer's output is handed over. `spoil`: the step whose first gradient gets a NaN. Returns the
  /// norms of the first gradient.
  std::vector<double> train(torch_adapter::ProgramMonitor* monitor, int steps, int spoil = -1) {
    std::vector<double> norms;
    for (int step = 0; step < steps; ++step) {
      optimizer->zero_grad();
      at::Tensor x = model[0]->as<torch::nn::Linear>()->forward(torch::randn({5, 4}));
      if (monitor != nullptr) x = monitor->activation("0", x);
      const at::Tensor loss = model[2]->as<torch::nn::Linear>()->forward(torch::tanh(x)).square().mean();
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

/// The numbers of a series; it must be there.
inline std::vector<double> column_of(const monitor::StoreReader& reader, const std::string& key) {
  const auto series = reader.series();
  for (std::uint32_t i = 0; i < series.size(); ++i) {
    if (series[i].key() == key) return reader.values(std::span(&i, 1), 0, 1000).numbers.front();
  }
  FAIL("there is no series " << key);
  return {};
}

inline bool has_series(const monitor::StoreReader& reader, const std::string& key) {
  for (const monitor::Series& one : reader.series()) {
    if (one.key() == key) return true;
  }
  return false;
}

}  // namespace msprobe::test

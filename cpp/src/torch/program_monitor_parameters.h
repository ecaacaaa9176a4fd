// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "msprobe/monitor_frame.h"
#include "msprobe/torch_monitor.h"
#include "msprobe/torch_program_monitor.h"
#include "torch/program_monitor_record.h"

namespace msprobe::torch_adapter {

/// What is measured in a step, and with what. Hooks of a backward hold on to it while they run: they may come
/// when the monitor is gone.
struct ProgramMeasurements {
  ProgramMeasurements(double eps, monitor::Session& session);

  TensorMeter meter;
  std::shared_ptr<monitor::Frame> frame;
  std::shared_ptr<monitor::CallCounter> calls;
};

/// What ProgramMonitor measures of parameters: gradients, weights, moments, pairs of them, and spectra.
class ProgramParameters {
 public:
  using Optimizers = std::vector<torch::optim::Optimizer*>;

  /// `options`, `series` and `to` outlive it. Logs a target that matches nothing.
  ProgramParameters(const std::vector<const torch::nn::Module*>& models, Optimizers optimizers,
                    const ProgramMonitor::Options& options, monitor::Session& series,
                    ProgramMeasurements& to);

  /// When the gradients of an optimizer are complete. Throws InvalidArgument for one that is not known.
  void before_update(const torch::optim::Optimizer& optimizer, bool recorded, bool next_recorded);
  /// Behind the last optimizer of a recorded step: those that before_update() was called with have stepped.
  void end_step();
  /// Behind any step.
  void forget_stepped() { stepped_.clear(); }
  const Optimizers& optimizers() const noexcept { return optimizers_; }

  /// number(name of a matrix, spectrum): told of each chosen one.
  void spectra_to(const std::function<void(const std::string&, const metrics::Spectrum&)>& number) const;

 private:
  struct Parameter {
    std::string name;
    at::Tensor tensor;
    bool is_measured_here;  // false: another process does it
    bool is_split;          // each process has another part
    std::map<monitor::Measured, std::uint32_t> labels = {};
    at::Tensor before = {};  // the weight before the step, kept on the host, as the next
    at::Tensor last_gradient = {};
  };
  using Some = std::vector<Parameter*>;
  using Tensors = std::vector<at::Tensor>;

  void find(const std::vector<const torch::nn::Module*>& models);
  void warn_of_unmatched(const std::vector<const torch::nn::Module*>& models) const;
  void make_labels();
  Some of_optimizer(const torch::optim::Optimizer& optimizer);
  TensorMeter& meter_for(monitor::Measured of);
  void measure(monitor::Measured of, const Some& parameters, const Tensors& tensors);
  void measure_pairs(monitor::Measured of, const Some& parameters, const Tensors& left, const Tensors& right,
                     bool left_is_kept);
  void keep(at::Tensor Parameter::* place, const Some& parameters, const Tensors& tensors);

  const ProgramMonitor::Options& options_;
  monitor::Session& series_;
  ProgramMeasurements& to_;
  Optimizers optimizers_;
  std::vector<Parameter> parameters_;
  std::map<std::pair<bool, bool>, std::unique_ptr<TensorMeter>> lean_;  // by powers, small
  std::set<const torch::optim::Optimizer*> stepped_;                    // in this step
};

}  // namespace msprobe::torch_adapter

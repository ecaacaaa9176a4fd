// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "msprobe/torch_monitor.h"
#include "msprobe/torch_program_monitor.h"
#include "torch/program_monitor_parameters.h"
#include "torch/program_monitor_record.h"

namespace msprobe::torch_adapter {

/// What ProgramMonitor measures of what a program hands over: outputs and their gradients, attention,
/// experts, collectives. All calls of a step with one name are one.
class ProgramModules {
 public:
  /// `options` and `series` outlive it.
  ProgramModules(const ProgramMonitor::Options& options, monitor::Session& series,
                 std::shared_ptr<ProgramMeasurements> to);

  // These throw InvalidArgument for what cannot be measured.
  void activation(const std::string& name, const at::Tensor& output);
  void attention(const std::string& name, const AttentionRows& rows);
  void experts(const std::string& name, const at::Tensor& logits, std::int64_t top);
  void communication(const std::string& collective, const at::Tensor& result);

  /// Gradients that come later belong to no step.
  void end_step() { gradients_.end_step(); }

 private:
  void measure(monitor::Measured of, const std::string& name, const at::Tensor& tensor);

  const ProgramMonitor::Options& options_;
  monitor::Session& series_;
  std::shared_ptr<ProgramMeasurements> to_;
  CallGradients gradients_;
};

}  // namespace msprobe::torch_adapter

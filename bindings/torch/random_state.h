// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>

#include <mutex>
#include <optional>
#include <utility>
#include <vector>

/// Where torch's random generators stand. That of the CPU is copied without a tensor: it is looked at around
/// every call.
class RandomState {
 public:
  /// Of the default generator of the CPU now, and of `others`.
  explicit RandomState(const std::vector<at::Generator>& others = {});

  bool operator==(const RandomState& other) const;
  /// The generators stand here again.
  void restore() const;

 private:
  struct OfCpu {
    explicit OfCpu(at::Generator of);
    at::Generator generator;
    at::mt19937_data_pod engine;
    std::optional<float> float_sample;
    std::optional<double> double_sample;
  };
  std::vector<OfCpu> of_cpu_;
  std::vector<std::pair<at::Generator, at::Tensor>> of_devices_;
};

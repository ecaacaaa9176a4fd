// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "intervention.h"
#include "msprobe/perturb.h"
#include "repetition.h"

class BackwardOfCall;

/// Has the backward of calls looked at. Needs the GIL.
class BackwardObserver {
 public:
  virtual ~BackwardObserver() = default;
  /// The gradients of all results have come. Never throws.
  virtual void check_backward(BackwardOfCall& call) = 0;
};

/// The number that the next node of autograd's graph gets on this thread.
std::uint64_t next_node();

/// A call whose backward is to be computed again. It waits at the nodes that the call made, for the gradients
/// of its results; then it has check_backward() of its owner do the work. The graph owns it.
class BackwardOfCall {
 public:
  /// After a call, whose nodes are those from `first_node` on. Returns why it cannot be watched; empty: it
  /// is, or it has no backward.
  static std::string watch(std::weak_ptr<BackwardObserver> owner, std::uint64_t step, const Call& call,
                           std::unique_ptr<Repetition> repetition, PyObject* result,
                           std::uint64_t first_node);

  BackwardOfCall(const BackwardOfCall&) = delete;
  BackwardOfCall& operator=(const BackwardOfCall&) = delete;

  std::uint64_t step() const noexcept { return step_; }
  const std::string& api() const noexcept { return api_; }
  /// "Torch.matmul.0.backward".
  const std::string& name() const noexcept { return name_; }
  const Repetition& repetition() const noexcept { return *repetition_; }

  /// Gradients of the arguments that want one, computed by the call's own backward from the gradients that
  /// came: what this call alone contributes, whoever else uses its arguments.
  struct Gradients {
    std::vector<at::Tensor> original;
    std::vector<at::Tensor> perturbed;
  };
  /// Nothing: the mode changes nothing. Throws what torch throws. Needs the GIL.
  std::optional<Gradients> compute_twice(msprobe::perturb::Mode mode);

  /// The gradients with each floating-point tensor that goes in, also those of the results, as `change` gives
  /// it; null: as they are. One for each of inputs(); undefined: none. Throws what torch throws.
  using Change = std::function<at::Tensor(const at::Tensor&)>;
  std::vector<at::Tensor> compute_changed(const Change& change);

  /// The gradients that came, for each tensor of the result; undefined: none came.
  const std::vector<at::Tensor>& arrived() const noexcept { return arrived_; }

  struct Arrival;  // a hook on a node
  void arrive(std::size_t output, const at::Tensor& gradient);

 private:
  BackwardOfCall() = default;
  std::vector<at::Tensor> compute(const std::vector<at::Tensor>& inputs, bool on_cpu, bool as_in_forward,
                                  const Change& change = {});

  // Autocast as it was in the forward.
  struct Autocast {
    at::DeviceType device = at::kCPU;
    bool enabled = false;
    at::ScalarType dtype = at::kBFloat16;
  };

  std::weak_ptr<BackwardObserver> owner_;
  std::uint64_t step_ = 0;
  std::string api_;
  std::string name_;
  std::unique_ptr<Repetition> repetition_;
  std::vector<PyObject*> inputs_;    // arguments that want a gradient, each once
  std::vector<at::Tensor> arrived_;  // for each tensor of the result
  std::size_t missing_ = 0;
  std::mutex mutex_;  // of the two above: nodes of several devices run on several threads
  Autocast autocast_;
};

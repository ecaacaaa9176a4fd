// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The data dump for torch tensors: what a recorder of msprobe/dump.h needs to know of them, and their
/// gradients. The same code serves Python (the module _torch) and C++ programs.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/dump.h"
#include "msprobe/export.h"
#include "msprobe/trace.h"

namespace msprobe::torch_adapter {

/// Puts tensors into element trees: statistics of CPU tensors are computed at once, with the threads torch
/// uses; those of a device by at:: operators there. A tensor without readable memory (meta, sparse, fake,
/// nested, a subclass) gets its dtype and shape, and null statistics. Never throws because of a tensor.
/// Thread-safe.
class MSPROBE_API TensorDescriber {
 public:
  explicit TensorDescriber(dump::Recorder& recorder);
  ~TensorDescriber();
  TensorDescriber(const TensorDescriber&) = delete;
  TensorDescriber& operator=(const TensorDescriber&) = delete;

  /// Appends `tensor`; when the recorder stores the tensors of this record, a copy is queued for the file
  /// "{record}.{position}"; an empty name belongs to no record, and stores nothing. An undefined tensor
  /// becomes null.
  void describe(trace::ElementWriter& out, const at::Tensor& tensor, std::string_view record,
                std::string_view position);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct BackwardState;

/// Watches the backward of recorded calls, without a node or a view of its own: hooks on the nodes that
/// autograd has anyway see what arrives at a call's outputs, and the contributions that leave it towards its
/// inputs. What several nodes contribute to one input is added up as autograd does. Results of training do
/// not change.
///
/// Thread-safe. A watch may be destroyed before the graph it put hooks on.
class MSPROBE_API BackwardWatch {
 public:
  BackwardWatch(dump::Recorder& recorder, TensorDescriber& describer);
  ~BackwardWatch();
  BackwardWatch(const BackwardWatch&) = delete;
  BackwardWatch& operator=(const BackwardWatch&) = delete;

  /// Where the inputs of a call hang in the graph; taken before the call, because a call that works in place
  /// moves them. Opaque.
  struct Inputs;
  std::shared_ptr<Inputs> before_call(const std::vector<at::Tensor>& inputs);

  /// After the call: hooks its nodes, if it has a backward. `inputs`: the tensors given to before_call(), in
  /// the order of the record, followed by any that were not known then. `forward_name`: the call's record
  /// name. `module`: the record is that of a module, made as soon as the gradients of the inputs are
  /// complete; otherwise that of an API.
  void after_call(const std::shared_ptr<Inputs>& before, const std::vector<at::Tensor>& inputs,
                  const std::vector<at::Tensor>& outputs, std::string_view forward_name, bool module);

  /// Makes the record "{name}" of a module's parameters, filled with the gradient of each as it reaches the
  /// parameter in a backward. Once per name and step; frozen parameters are left out.
  void watch_parameters(std::string_view name,
                        const std::vector<std::pair<std::string, at::Tensor>>& parameters);

  /// Records calls whose gradients came in part. Call it before Recorder::flush().
  void flush();

  /// Forgets everything of the step: hooks on parameters are taken off, those on nodes of old graphs do
  /// nothing.
  void end_step();

 private:
  std::shared_ptr<BackwardState> state_;
};

}  // namespace msprobe::torch_adapter

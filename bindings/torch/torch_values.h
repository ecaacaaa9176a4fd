// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include <string_view>
#include <vector>

#include "../python_values.h"
#include "call_memory.h"
#include "msprobe/torch_dump.h"
#include "msprobe/torch_tensors.h"

using Tensors = std::vector<at::Tensor>;

/// What torch adds to the values of Python. Tensors are described, and appended to a list if there is one.
class TorchValues : public FrameworkValues {
 public:
  /// `memory`: which tensors are measured; null: all.
  explicit TorchValues(msprobe::torch_adapter::TensorDescriber& describer, Tensors* tensors = nullptr,
                       CallMemory* memory = nullptr)
      : describer_(describer), tensors_(tensors), memory_(memory) {}

  bool put_tensor(PyObject* value, msprobe::dump::ValueWriter& to) override;
  bool put_keyed(PyObject* value, std::string_view key, msprobe::dump::ValueWriter& to) override;
  bool put_object(PyObject* value, msprobe::dump::ValueWriter& to) override;
  bool measures_arrays() const override { return memory_ == nullptr || !memory_->hides_results(); }

  /// Of a tensor that does not tell it itself: TensorDescriber::describe().
  void set_placement(std::string_view placement) { placement_ = placement; }

 private:
  void put_peer_operation(pybind11::handle operation, msprobe::dump::ValueWriter& to);

  msprobe::torch_adapter::TensorDescriber& describer_;
  Tensors* tensors_;
  CallMemory* memory_;
  std::string_view placement_;
};

/// The tensors inside a value, in the order a to meets them, without describing them.
void collect_tensors(PyObject* value, Tensors& out, int depth = 0);

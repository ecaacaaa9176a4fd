// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What the modes of the free benchmark make of the arguments of a call.

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include "arguments.h"
#include "repetition.h"

inline bool is_half(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
}

inline pybind11::object python_tensor(const at::Tensor& tensor) {
  return pybind11::reinterpret_steal<pybind11::object>(THPVariable_Wrap(tensor));
}

/// `tensor` without 16-bit floats, and on the CPU if wanted; itself where nothing is to be done. Detached.
at::Tensor improved(const at::Tensor& tensor, bool on_cpu);

/// Does so with all tensors of the arguments; devices among them are the CPU if wanted. `repetition` outlives
/// what is returned.
OwnedArguments::Replace improve_all(const Repetition& repetition, bool on_cpu);

/// Whether that changes an argument, or what autocast makes of one.
bool can_be_improved(const Repetition& repetition);

/// The tensor that the other modes change: the first floating-point one among the positional arguments. In a
/// list, tuple or dict that comes before, the first one inside of it. Null: there is none.
PyObject* tensor_to_change(const CallArguments& arguments);

/// The tensors of a value, in the order of a walk.
std::vector<at::Tensor> tensors_of(PyObject* value);

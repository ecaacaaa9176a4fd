// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "changed_arguments.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/Device.h>

namespace py = pybind11;

at::Tensor improved(const at::Tensor& tensor, bool on_cpu) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  at::Tensor other = tensor.detach();
  if (on_cpu) other = other.cpu();
  return is_half(other) ? other.to(at::kFloat) : other;
}

OwnedArguments::Replace improve_all(const Repetition& repetition, bool on_cpu) {
  return [&repetition, on_cpu](PyObject* value) -> py::object {
    if (on_cpu && THPDevice_Check(value)) {
      return py::reinterpret_steal<py::object>(THPDevice_New(at::Device(at::kCPU)));
    }
    if (!THPVariable_Check(value)) return {};
    const at::Tensor before = repetition.before(value);
    if (!is_half(before) && (!on_cpu || before.is_cpu())) return {};
    return python_tensor(improved(before, on_cpu));
  };
}

bool can_be_improved(const Repetition& repetition) {
  bool can = false;
  const auto look = [&](PyObject* value) {
    const at::Tensor tensor = repetition.before(value);
    can = is_half(tensor) ||
          (tensor.scalar_type() == at::kFloat && at::autocast::is_autocast_enabled(tensor.device().type()));
    return !can;
  };
  const CallArguments& arguments = repetition.arguments();
  for (Py_ssize_t i = 0; i < arguments.positional && !can; ++i) for_each_tensor(arguments.values[i], look);
  arguments.for_each_keyword([&](PyObject*, PyObject* value) {
    if (!can) for_each_tensor(value, look);
  });
  return can;
}

PyObject* tensor_to_change(const CallArguments& arguments) {
  for (Py_ssize_t i = 0; i < arguments.positional; ++i) {
    PyObject* value = arguments.values[i];
    PyObject* found = nullptr;
    for_each_tensor(value, [&](PyObject* tensor) {
      if (at::isFloatingType(THPVariable_Unpack(tensor).scalar_type())) found = tensor;
      return found == nullptr;
    });
    if (found != nullptr || PyList_Check(value) != 0 || PyTuple_Check(value) != 0 ||
        PyDict_Check(value) != 0) {
      return found;
    }
  }
  return nullptr;
}

std::vector<at::Tensor> tensors_of(PyObject* value) {
  std::vector<at::Tensor> tensors;
  for_each_tensor(value, [&](PyObject* tensor) {
    tensors.push_back(THPVariable_Unpack(tensor));
    return true;
  });
  return tensors;
}

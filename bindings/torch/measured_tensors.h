// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What the bindings that measure many tensors at once have in common.

#include <torch/csrc/autograd/python_variable.h>

#include <cstdint>
#include <optional>

constexpr std::int64_t kElementsWithoutGil = 1 << 16;  // fewer are done before another thread has it

/// Nothing: `value` is no tensor of torch's own classes.
inline std::optional<at::Tensor> tensor_of(PyObject* value) {
  if (!THPVariable_CheckExact(value)) return std::nullopt;
  return THPVariable_Unpack(value);
}

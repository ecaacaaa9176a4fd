// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "msprobe/tensor_view.h"
#include "msprobe/torch.h"

namespace msprobe::torch_adapter {

/// Work of fewer elements is done before a second thread has woken up.
inline constexpr std::int64_t kElementsForThreads = std::int64_t{1} << 17;

/// Why the elements of `tensor` cannot be read as strided memory of its device: "is sparse". Empty when they
/// can.
std::string why_unreadable(const at::Tensor& tensor);

/// Whether the operators of `tensor` run in Python, as those of a DTensor do: it may have no memory of its
/// own.
inline bool runs_in_python(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python);
}

/// The memory of a tensor on the CPU that is readable, and neither conjugated nor negated: view_of() without
/// a check.
TensorView view_of_plain(const at::Tensor& tensor);

/// The tensor with pending conjugation and negation carried out, detached from autograd.
at::Tensor resolved(const at::Tensor& tensor);

}  // namespace msprobe::torch_adapter

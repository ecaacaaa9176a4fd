// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "torch/device_summary.h"

namespace msprobe::torch_adapter {

/// What operators of torch find of each tensor: one tensor of doubles, or of floats where the device has no
/// doubles, on its device. At most eight launches each, two more where small elements are counted, and two
/// for each bound; the norms of a list are taken together, by two. Of kRaw the bytes, each as a number.
/// Elements that no reduction takes as they are (fp8, integers, complex32), and masks of large tensors, are
/// made a piece at a time.
std::vector<at::Tensor> launch_operators(std::span<const Measured> tensors);

/// The numbers of one tensor on the host as the words of the kernel, those above bounds aside.
std::array<device::Long, device::kFields> words_of_operators(std::span<const double> numbers, DType dtype,
                                                             std::int64_t count, device::Word wanted);

/// Elements above each of the bounds.
std::vector<std::int64_t> above_of_operators(std::span<const double> numbers, device::Word wanted,
                                             std::size_t bounds);

/// The fields of device::PairField of two tensors of one shape and device, in pieces.
at::Tensor launch_pair_operators(const at::Tensor& left, const at::Tensor& right, double floor);

}  // namespace msprobe::torch_adapter

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// msprobe/perturb.h for torch tensors of any device: CPU tensors by native kernels with the threads that
/// torch uses, others by at:: operators where they are. No autograd, no random number of torch's, and nothing
/// of the tensors given changes.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "msprobe/export.h"
#include "msprobe/perturb.h"

namespace msprobe::torch_adapter {

/// Why a tensor is none that can be changed: "is sparse", ...; empty: it can. (One of another dtype than
/// float64, float32, float16 and bfloat16, a tensor subclass, one without memory.)
MSPROBE_API std::string why_unperturbable(const at::Tensor& tensor);

/// A changed copy of `tensor`: add_noise, bit_noise or change_value. Undefined where the rules of the mode
/// leave it as it is: it is empty, all of it is small, or it has no two elements to exchange. Strides are
/// kept where memory is dense.
MSPROBE_API at::Tensor perturbed(const at::Tensor& tensor, perturb::Mode mode);

/// A copy in which every element is off by 2^`power` units in the last place, up or down at random.
MSPROBE_API at::Tensor with_random_ulps(const at::Tensor& tensor, std::uint64_t seed, int power = 0);

/// How far a tensor moved. Both have one shape; real dtypes.
MSPROBE_API perturb::Change change(const at::Tensor& before, const at::Tensor& after);

/// Of a softmax of `tensor` along `dim`: the largest number that a result which is not next to 0 is made of,
/// which is its condition number, and the share of rows in which all results but one are 0. What a mask sets
/// (-1e4 and below) does not count.
struct SoftmaxState {
  double condition = 0;
  double saturated = 0;
};
MSPROBE_API SoftmaxState softmax_state(const at::Tensor& tensor, std::int64_t dim);

/// Of two results of the same shape, the first taken to the dtype of the second, unless both are integers:
/// those are compared as float32. Throws InvalidArgument for other dtypes or shapes.
MSPROBE_API perturb::Ratios ratios(const at::Tensor& original, const at::Tensor& perturbed, bool backward);

/// Of two results of the same shape, the second on the CPU.
MSPROBE_API perturb::Distance distance(const at::Tensor& original, const at::Tensor& cpu);

}  // namespace msprobe::torch_adapter

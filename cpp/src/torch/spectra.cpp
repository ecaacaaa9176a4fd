// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <limits>

#include "msprobe/metrics.h"
#include "msprobe/torch.h"
#include "msprobe/torch_monitor.h"
#include "torch/out_of_sight.h"

namespace msprobe::torch_adapter {

std::vector<metrics::Spectrum> spectra(std::span<const at::Tensor> matrices) {
  const OutOfSight out_of_sight;
  const c10::NoGradGuard no_grad;
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  std::vector<metrics::Spectrum> found(matrices.size(), {kUnknown, kUnknown});
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const at::Tensor& matrix = matrices[i];
    if (!matrix.defined() || matrix.layout() != at::kStrided || matrix.dim() != 2) continue;
    if (matrix.numel() == 0 || !matrix.is_floating_point()) continue;
    const at::Tensor wide = matrix.detach().to(matrix.is_cpu() ? at::kDouble : at::kFloat);
    const at::Tensor gram = wide.size(0) <= wide.size(1) ? at::mm(wide, wide.t()) : at::mm(wide.t(), wide);
    const at::Tensor host = gram.to(at::kCPU, at::kDouble).contiguous();
    found[i] = metrics::spectrum_of_gram(view_of(host));
  }
  return found;
}

}  // namespace msprobe::torch_adapter

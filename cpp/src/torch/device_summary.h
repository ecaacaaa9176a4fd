// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Statistics of tensors of a device, in two halves: launching waits for nothing, and fetching brings the
/// results of many to the host at once.

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "msprobe/stats.h"
#include "msprobe/tensor_view.h"
#include "msprobe/trace.h"

namespace msprobe::torch_adapter {

/// What is computed of one tensor, still on its device.
struct DeviceStatistics {
  DType dtype = DType::kFloat32;
  std::int64_t count = 0;             // of elements
  at::Tensor reals;                   // min, max, sum and norm, of the absolute values for a complex tensor
  at::Tensor counts;                  // of NaN and infinities
  at::Tensor value;                   // of a 0-d tensor: a copy, in place of the others
  std::optional<c10::Stream> stream;  // that they are computed on
};

/// Begins to measure `tensor`, of strided layout, with at least one element and without pending conjugation.
/// Holds no reference to it.
DeviceStatistics launch_statistics(const at::Tensor& tensor);

/// As trace::measure() gives them, without checksums; sums are kept in double on CPU and CUDA, in float
/// elsewhere. One transfer and one wait for each stream.
std::vector<trace::Statistics> fetch_statistics(const std::vector<DeviceStatistics>& launched);

/// A summary that is computed on a device.
struct LaunchedSummary {
  std::int64_t count = 0;
  bool is_complex = false;
  bool doubles = false;  // the reals
  bool powers = false;   // were asked for
  bool small = false;
  at::Tensor reals;
  at::Tensor counts;
  std::optional<c10::Stream> stream;  // that it is computed on
};

/// Begins to summarise `tensor`, of strided layout, with at least one element and without pending
/// conjugation, with what `options` has of powers and small. Waits for nothing, and holds no reference to it.
LaunchedSummary launch_summary(const at::Tensor& tensor, const stats::SummaryOptions& options);

/// One transfer and one wait for each stream.
std::vector<stats::Summary> fetch_summaries(const std::vector<LaunchedSummary>& launched);

}  // namespace msprobe::torch_adapter

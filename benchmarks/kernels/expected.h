// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "msprobe/metrics.h"
#include "msprobe/stats.h"

namespace msprobe::bench {

/// Throws std::runtime_error, naming what differs, unless `summary` and `signs` (when not empty) are what
/// plain element-by-element code finds in `view`, which must be contiguous and finite. `bounds` are those of
/// the request.
void check(const TensorView& view, const stats::Summary& summary, std::span<const float> bounds,
           std::span<const std::uint8_t> signs);

/// The same for two contiguous, finite tensors of one dtype.
void check(const TensorView& target, const TensorView& reference, const metrics::PairMetrics& found);

}  // namespace msprobe::bench

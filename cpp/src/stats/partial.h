// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "msprobe/stats.h"

namespace msprobe::stats {

/// Bounds of which the elements above them must be counted one by one in a segment.
struct OpenBounds {
  std::vector<std::size_t> index;  // in SummaryOptions::bounds
  std::vector<float> value;
  std::vector<std::int16_t> half_limits;  // the same in the form the kernel for 16-bit floats wants
  std::vector<std::int64_t> above;        // of one block
};

/// Of the finite elements of a segment that has others.
struct FiniteSums {
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  double sum = 0;
  double squares = 0;
};

/// What one segment of a tensor contributes. Segments are merged in their order in the tensor.
struct Partial {
  std::int64_t count = 0;
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  double sum = 0;
  double sum_imag = 0;
  double squares = 0;
  std::int64_t nan = 0;
  std::int64_t pos_inf = 0;
  std::int64_t neg_inf = 0;
  std::int64_t zeros = 0;

  std::unique_ptr<FiniteSums> finite;  // null: all elements are finite, or no sketch is wanted

  // Of the optional statistics, see block_statistics.h.
  std::array<double, Sketch::kSums> sketch{};  // of the finite elements
  std::uint64_t digest = 0;
  double sum_abs = 0;
  double fourth_powers = 0;
  std::int64_t small = 0;
  std::uint32_t crc32 = 0;
  std::uint64_t crc32_bytes = 0;
  std::vector<std::int64_t> above;  // per bound, the elements above it
  std::unique_ptr<OpenBounds> open_bounds;
};

}  // namespace msprobe::stats

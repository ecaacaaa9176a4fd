// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The inner loops of summarize(), compiled for several instruction sets and chosen at run time. All work on
/// contiguous memory of any alignment.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace msprobe::stats {

/// Sums are spread over this many lanes whatever the width of the machine's vectors: element i goes to lane i
/// % 16. So results do not depend on the instruction set (exception: float64, where some have no fused
/// multiply-add).
inline constexpr std::size_t kLanes = 16;

/// 16-bit floats are added in float over this many elements (32 per lane, even and odd elements apart) before
/// they go into a double.
inline constexpr std::size_t kFloatChain = 1024;

/// The running state of one segment of a tensor. T is float or double.
/// `min` and `max` mean nothing once a NaN has been seen; the sums then are NaN or Inf, which tells.
template <typename T>
struct Lanes {
  double sum[kLanes] = {};
  double squares[kLanes] = {};
  T min[kLanes];
  T max[kLanes];
  std::int64_t zeros = 0;

  Lanes() {
    for (std::size_t i = 0; i < kLanes; ++i) {
      min[i] = std::numeric_limits<T>::infinity();
      max[i] = -std::numeric_limits<T>::infinity();
    }
  }
};

/// 16-bit floats by their bits.
enum class Half : std::uint8_t { kFloat16, kBFloat16 };

struct Kernels {
  // Add `count` elements. All calls for one segment but the last must have counts that are multiples of
  // kFloatChain.
  void (*moments_f32)(const float* data, std::size_t count, Lanes<float>* lanes);
  void (*moments_f64)(const double* data, std::size_t count, Lanes<double>* lanes);
  void (*moments_f16)(const std::uint16_t* data, std::size_t count, Lanes<float>* lanes);
  void (*moments_bf16)(const std::uint16_t* data, std::size_t count, Lanes<float>* lanes);

  // Bit i of `bits` = element i > 0. `count` bits are written, the rest of the last byte is 0.
  void (*signs_f32)(const float* data, std::size_t count, std::uint8_t* bits);
  void (*signs_f64)(const double* data, std::size_t count, std::uint8_t* bits);
  void (*signs_half)(const std::uint16_t* data, std::size_t count, Half kind, std::uint8_t* bits);

  // Elements > bound; NaN is not.
  std::int64_t (*above_f32)(const float* data, std::size_t count, float bound);
  std::int64_t (*above_f64)(const double* data, std::size_t count, double bound);

  void (*widen_half)(const std::uint16_t* data, std::size_t count, Half kind, float* out);

  std::string_view instruction_set;
};

/// The best kernels for this processor; found once.
const Kernels& kernels();

}  // namespace msprobe::stats

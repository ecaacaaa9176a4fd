// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The inner loop of comparing checkpoints, compiled for several instruction sets and chosen at run time. It
/// takes less than metrics::compare() and keeps up with memory: sums go to double after 256 pairs only. The
/// loop of metrics::compare() in its place has 0.67 of the rate for float32 and 0.44 for bfloat16
/// (docs/performance.md), and needs its doubles for a cosine that is right to 12 decimals: so there are two.

#include <cstddef>
#include <cstdint>

namespace msprobe::checkpoint {

/// Which pair goes to which of so many sums depends on its position alone, whatever the width of vectors.
inline constexpr std::size_t kLanes = 32;

/// Pairs of a block, a multiple of kLanes.
inline constexpr std::size_t kBlock = 1024;

/// Element types with a kernel; both sides have the same.
enum class Element : std::uint8_t { kFloat32, kBFloat16, kFloat16 };
inline constexpr std::size_t kElements = 3;

/// Of the pairs of a block, all finite.
struct BlockDifference {
  double dot = 0;
  double squared_distance = 0;
  double reference_sum = 0;
  double target_sum = 0;
  double reference_squares = 0;
  double target_squares = 0;
  float max_absolute = 0;
  float max_relative = 0;  // in: that of the pairs before; out: of these too
  std::size_t equal_bits = 0;
};

/// Compares `count` pairs, a multiple of kLanes and at most kBlock, of any alignment. Returns false, and
/// leaves `block` undefined but for max_relative, where float32 does not do: elements that are not finite, or
/// squares beyond its range on either end.
using AddBlock = bool (*)(const void* reference, const void* target, std::size_t count,
                          BlockDifference* block);

struct Kernels {
  AddBlock add_block[kElements];
};

/// The best kernels for this processor; found once.
const Kernels& kernels();

}  // namespace msprobe::checkpoint

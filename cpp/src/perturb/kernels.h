// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The inner loops over pairs of results, compiled for several instruction sets and chosen at run time. They
/// take ratios and the largest errors of their own kinds, none of which metrics::compare() has.

#include <cstddef>
#include <cstdint>
#include <limits>

namespace msprobe::perturb {

/// Element types with kernels of their own.
enum class Element : std::uint8_t { kFloat64, kFloat32, kFloat16, kBFloat16 };
inline constexpr std::size_t kElements = 4;

/// What is found of pairs, in the type that they are compared in; not rounded to a 16-bit one yet.
struct RatioState {
  double largest = 1;
  double smallest = 1;
  double least_product = 0;
  std::int64_t one_sided_nan = 0;
};

/// What is found of results beside those of the CPU: see Distance.
struct DistanceState {
  double absolute = 0;
  double relative = 0;
  double signed_sum = 0;
  bool has_nan = false;
  bool other_is_finite = true;
};

struct Kernels {
  /// a / b of the magnitudes, each at least `floor`. [original][perturbed]; null where there is none.
  void (*add_ratios[kElements][kElements])(const void* original, const void* perturbed, std::size_t count,
                                           double floor, RatioState* state);
  /// x + noise where |x| > root, in the arithmetic of the type. Returns the largest magnitude.
  double (*add_noise[kElements])(const void* from, void* to, std::size_t count, double noise, double root);
  /// The last bit is the other one above the smallest normal number, of words of 2, 4 and 8 bytes. A float
  /// with the bits `infinity` is infinite. Returns the bits of the largest magnitude but NaN.
  std::uint64_t (*flip_last_bits[3])(const void* from, void* to, std::size_t count,
                                     std::uint64_t smallest_normal, std::uint64_t infinity);
  void (*add_distance)(const double* original, const double* cpu, std::size_t count, DistanceState* state);
};

/// The best kernels for this processor; found once.
const Kernels& kernels();

}  // namespace msprobe::perturb

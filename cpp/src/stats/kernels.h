// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The inner loops of summarize(), compiled for several instruction sets and chosen at run time. All work on
/// contiguous memory of any alignment.

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "base/crc32.h"
#include "base/half.h"
#include "msprobe/stats.h"

namespace msprobe::stats {

/// Sums are spread over this many lanes whatever the width of the machine's vectors, and which element goes
/// to which lane depends on its position alone. So results are bit-equal for all instruction sets with fused
/// multiply-add (AVX2, AVX-512, NEON); for 16-bit floats and small integers, whose squares are exact, for
/// all.
inline constexpr std::size_t kLanes = 16;

/// The fast kernels add this many elements in float, two sets of kLanes lanes at a time, before they go into
/// a double: 16 additions per lane of float32 values, 32 of 16-bit values, whose squares are exact in float.
inline constexpr std::size_t kFloatChain = 512;
inline constexpr std::size_t kHalfChain = 1024;

/// The running state of one segment of a tensor. T is float or double.
/// `min` and `max` mean nothing once a NaN has been seen; the sums then are NaN or Inf, which tells.
template <typename T>
struct Lanes {
  double sum[kLanes];
  double squares[kLanes];
  T min[kLanes];
  T max[kLanes];
  std::int64_t zeros = 0;

  Lanes() {
#pragma GCC unroll 16  // or GCC 12 makes `rep stos` of it, which takes longer to start than the stores
    for (std::size_t i = 0; i < kLanes; ++i) {
      sum[i] = 0;
      squares[i] = 0;
      min[i] = std::numeric_limits<T>::infinity();
      max[i] = -std::numeric_limits<T>::infinity();
    }
  }
};

/// Called by the fast kernels with consecutive stretches of the data they have just gone through, while these
/// are in the first-level cache: kHalfChain elements each, the last one what is left.
struct Visitor {
  void (*call)(void* self, std::size_t first, std::size_t count) = nullptr;
  void* self = nullptr;
};

/// What the parts of one group add to a sketch, before its sums are moved on (position::lane()) and its
/// digest is multiplied by the factor. Not initialised.
struct GroupSums {
  std::array<double, Sketch::kSums> sums;
  std::uint64_t digest;
};

/// Sums over the elements of a block.
struct Powers {
  double absolute = 0;     // of |x|
  double fourth = 0;       // of |x|^4
  std::int64_t below = 0;  // elements with |x| < limit
};

struct Kernels {
  // Add `count` elements to the lanes. The fast ones are right as long as no square overflows or underflows
  // in float. They also take the sign bits, as signs_f32 does, where `signs` is not null.
  void (*fast_f32)(const float* data, std::size_t count, Lanes<float>* lanes, std::uint8_t* signs,
                   const Visitor& visitor);
  void (*fast_half)(const std::uint16_t* data, std::size_t count, Half kind, Lanes<float>* lanes,
                    std::uint8_t* signs, const Visitor& visitor);
  // The fast ones without sign bits, which also add the float32 values to `checksum`; null where this
  // processor gains nothing from doing both at once.
  void (*fast_f32_with_checksum)(const float* data, std::size_t count, Lanes<float>* lanes, Crc32& checksum);
  void (*fast_bfloat16_with_checksum)(const std::uint16_t* data, std::size_t count, Lanes<float>* lanes,
                                      Crc32& checksum);
  void (*moments_f32)(const float* data, std::size_t count, Lanes<float>* lanes);
  void (*moments_f64)(const double* data, std::size_t count, Lanes<double>* lanes);

  // Digest and sums of a sketch of `count` parts from `place` of a group on, both multiples of
  // position::kRun, for this group and those that follow. Sums are right as long as nothing overflows and all
  // parts are finite. The fast ones add to the lanes, too, as fast_f32 and fast_half do; that of doubles
  // takes one group.
  using FastWithSketch = void (*)(const void* data, std::size_t count, std::size_t place,
                                  std::uint64_t factor, GroupSums* groups, Lanes<float>* lanes);
  FastWithSketch fast_f32_with_sketch;
  FastWithSketch fast_float16_with_sketch;
  FastWithSketch fast_bfloat16_with_sketch;
  void (*sketch_f64)(const void* data, std::size_t count, std::size_t place, std::uint64_t factor,
                     GroupSums* group);
  // The digest alone, of `words` words of a group from `first` on; both are multiples of kLanes. `size`:
  // bytes of a part.
  std::uint64_t (*digest)(const void* data, std::size_t words, std::size_t first, std::size_t size);

  // Bit i of `bits` = element i > 0. `count` bits are written, the rest of the last byte is 0.
  void (*signs_f32)(const float* data, std::size_t count, std::uint8_t* bits);
  void (*signs_f64)(const double* data, std::size_t count, std::uint8_t* bits);

  // Adds to `above[k]` the elements > bounds[k], for `bound_count` bounds. NaN is above nothing. `count` is
  // at most 32767.
  void (*above_f32)(const float* data, std::size_t count, const float* bounds, std::size_t bound_count,
                    std::int64_t* above);
  void (*above_f64)(const double* data, std::size_t count, const float* bounds, std::size_t bound_count,
                    std::int64_t* above);
  // `limits` as half_limits() gives them: one per bound, and one more.
  void (*above_half)(const std::uint16_t* data, std::size_t count, const std::int16_t* limits,
                     std::size_t bound_count, std::int64_t* above);
  void (*half_limits)(const float* bounds, std::size_t bound_count, Half kind, std::int16_t* limits);

  // In float as the fast kernels add, with a scale that keeps fourth powers in its range, or else in double.
  // `limit`: of `below`; 0: it is not counted.
  Powers (*powers_f32)(const float* data, std::size_t count, float limit);
  // In double throughout; without `below`.
  Powers (*powers_f64)(const double* data, std::size_t count);
  // How many elements have |x| < limit.
  std::int64_t (*below_f32)(const float* data, std::size_t count, float limit);
  std::int64_t (*below_f64)(const double* data, std::size_t count, double limit);

  PairSums (*pairs_f32)(const float* left, const float* right, std::size_t count);
  PairSums (*pairs_f64)(const double* left, const double* right, std::size_t count);

  std::int64_t (*count_bits)(const std::uint8_t* bytes, std::size_t count);

  std::string_view instruction_set;
};

/// The best kernels for this processor; found once.
const Kernels& kernels();

/// Put the functions of one file into the table, for the instruction set that Highway has been told to use.
void add_float_kernels(Kernels& kernels);
void add_half_kernels(Kernels& kernels);
void add_element_kernels(Kernels& kernels);
void add_pair_kernels(Kernels& kernels);
void add_sketch_kernels(Kernels& kernels);

}  // namespace msprobe::stats

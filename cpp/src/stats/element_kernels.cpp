// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// Highway compiles this file once per instruction set. See docs/adr/0004.

#include "base/kernel_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stats/element_kernels.cpp"
#include <hwy/foreach_target.h>

#include <bit>
#include <cmath>
#include <limits>

#include "stats/chains-inl.h"

HWY_BEFORE_NAMESPACE();
namespace msprobe::stats::HWY_NAMESPACE {
namespace {

// Stores the bits of `predicate(i)`, a mask for the elements from i on, and for the last ones `single(i)`.
template <typename D, typename Predicate, typename Single>
HWY_INLINE void pack_bits(D d, std::size_t count, std::uint8_t* HWY_RESTRICT bits, Predicate predicate,
                          Single single) {
  constexpr std::size_t width = hn::MaxLanes(D());
  constexpr std::size_t group = width < 8 ? 8 / width : 4;
  std::size_t i = 0;
  for (; i + group * width <= count; i += group * width) {
    hn::Mask<D> masks[group];
    for (std::size_t k = 0; k < group; ++k) masks[k] = predicate(i + k * width);
    store_bits(d, masks, bits + i / 8);
  }
  store_last_bits(i, count, bits, single);
}

void signs_f32(const float* HWY_RESTRICT data, std::size_t count, std::uint8_t* HWY_RESTRICT bits) {
  const Floats df;
  pack_bits(
      df, count, bits, [=](std::size_t i) { return hn::Gt(hn::LoadU(df, data + i), hn::Zero(df)); },
      [=](std::size_t i) { return data[i] > 0; });
}

void signs_f64(const double* HWY_RESTRICT data, std::size_t count, std::uint8_t* HWY_RESTRICT bits) {
  const Doubles dd;
  pack_bits(
      dd, count, bits, [=](std::size_t i) { return hn::Gt(hn::LoadU(dd, data + i), hn::Zero(dd)); },
      [=](std::size_t i) { return data[i] > 0; });
}

// Adds, for each of `n` limits, the elements of which `load(i)` is above it. One read of the data serves up
// to four limits.
template <std::size_t n, typename D, typename Load>
HWY_INLINE void count_above(D d, std::size_t count, const hn::TFromD<D>* limits, Load load,
                            std::int64_t* above) {
  constexpr std::size_t width = hn::MaxLanes(D());
  hn::Vec<D> limit[n];
  hn::Vec<Counters<D>> counts[n];
  for (std::size_t k = 0; k < n; ++k) {
    limit[k] = hn::Set(d, limits[k]);
    counts[k] = hn::Zero(Counters<D>());
  }
#pragma GCC unroll 2
  for (std::size_t i = 0; i + width <= count; i += width) {
    const auto x = load(i);
    for (std::size_t k = 0; k < n; ++k) counts[k] = count_where(d, counts[k], hn::Gt(x, limit[k]));
  }
  for (std::size_t k = 0; k < n; ++k) above[k] += total(d, counts[k]);
}

template <typename D, typename Load, typename Single>
HWY_INLINE void count_all_above(D d, std::size_t count, const hn::TFromD<D>* limits, std::size_t limit_count,
                                Load load, Single single, std::int64_t* above) {
  std::size_t k = 0;
  for (; k + 4 <= limit_count; k += 4) count_above<4>(d, count, limits + k, load, above + k);
  switch (limit_count - k) {
    case 3: count_above<3>(d, count, limits + k, load, above + k); break;
    case 2: count_above<2>(d, count, limits + k, load, above + k); break;
    case 1: count_above<1>(d, count, limits + k, load, above + k); break;
    default: break;
  }
  for (std::size_t i = count - count % hn::MaxLanes(D()); i < count; ++i) {
    for (k = 0; k < limit_count; ++k) above[k] += single(i) > limits[k];
  }
}

void above_f32(const float* HWY_RESTRICT data, std::size_t count, const float* bounds,
               std::size_t bound_count, std::int64_t* above) {
  const Floats df;
  count_all_above(
      df, count, bounds, bound_count, [=](std::size_t i) { return hn::LoadU(df, data + i); },
      [=](std::size_t i) { return data[i]; }, above);
}

void above_f64(const double* HWY_RESTRICT data, std::size_t count, const float* bounds,
               std::size_t bound_count, std::int64_t* above) {
  const Doubles dd;
  for (std::size_t k = 0; k < bound_count; ++k) {
    const double limit = bounds[k];
    count_all_above(
        dd, count, &limit, 1, [=](std::size_t i) { return hn::LoadU(dd, data + i); },
        [=](std::size_t i) { return data[i]; }, above + k);
  }
}

// The bits of a 16-bit float as an integer in the order of the values; -0 is just below +0, NaN is beyond the
// infinities.
HWY_INLINE int ordered(std::uint16_t bits) { return bits & 0x8000 ? -1 - (bits & 0x7FFF) : bits; }

// The largest 16-bit float that is not above `bound`, as ordered integer.
std::int16_t ordered_floor(float bound, Half kind) {
  const std::uint16_t infinity = kind == Half::kFloat16 ? 0x7C00 : 0x7F80;
  int low = ordered(static_cast<std::uint16_t>(0x8000 | infinity)) - 1;  // below -Inf: not above any bound
  int high = infinity + 1;                                               // above +Inf
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    const auto bits = static_cast<std::uint16_t>(middle >= 0 ? middle : 0x8000 | (-1 - middle));
    (widen_one(bits, kind) <= bound ? low : high) = middle;
  }
  return static_cast<std::int16_t>(low);
}

void half_limits(const float* bounds, std::size_t bound_count, Half kind, std::int16_t* limits) {
  for (std::size_t k = 0; k < bound_count; ++k) limits[k] = ordered_floor(bounds[k], kind);
  limits[bound_count] = ordered_floor(std::numeric_limits<float>::infinity(), kind);
}

void above_half(const std::uint16_t* HWY_RESTRICT data, std::size_t count, const std::int16_t* limits,
                std::size_t bound_count, std::int64_t* above) {
  const Shorts ds;
  const auto magnitude = hn::Set(ds, 0x7FFF);
  const auto load = [=](std::size_t i) {
    const auto x = hn::LoadU(ds, reinterpret_cast<const std::int16_t*>(data + i));
    return hn::Xor(x, hn::And(hn::ShiftRight<15>(x), magnitude));
  };
  const auto single = [=](std::size_t i) { return ordered(data[i]); };
  // Positive NaN is above every limit. It is what is above the last one, +Inf: count that and take it away
  // again.
  std::int64_t nan = 0;
  count_all_above(ds, count, limits, bound_count, load, single, above);
  count_all_above(ds, count, limits + bound_count, 1, load, single, &nan);
  for (std::size_t k = 0; k < bound_count; ++k) above[k] -= nan;
}

HWY_INLINE hn::Vec<Doubles> load_double(const float* data) {
  return hn::PromoteTo(Doubles(), hn::LoadU(FloatsOfDoubles(), data));
}

HWY_INLINE hn::Vec<Doubles> load_double(const double* data) { return hn::LoadU(Doubles(), data); }

// Element i goes to lane i % kLanes whatever the width of the vectors, as in the basic statistics.
template <typename T>
HWY_INLINE Powers powers_of(const T* HWY_RESTRICT data, std::size_t count) {
  const Doubles dd;
  hn::Vec<Doubles> absolute[kDoubleVectors];
  hn::Vec<Doubles> fourth[kDoubleVectors];
  for (std::size_t v = 0; v < kDoubleVectors; ++v) absolute[v] = fourth[v] = hn::Zero(dd);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t v = 0; v < kDoubleVectors; ++v) {
      const auto x = load_double(data + i + v * kDoubleWidth);
      const auto square = hn::Mul(x, x);
      absolute[v] = hn::Add(absolute[v], hn::Abs(x));
      fourth[v] = hn::MulAdd(square, square, fourth[v]);
    }
  }
  HWY_ALIGN double lanes[2][kLanes];
  for (std::size_t v = 0; v < kDoubleVectors; ++v) {
    hn::Store(absolute[v], dd, lanes[0] + v * kDoubleWidth);
    hn::Store(fourth[v], dd, lanes[1] + v * kDoubleWidth);
  }
  for (std::size_t lane = 0; i < count; ++i, ++lane) {
    const double x = data[i];
    lanes[0][lane] += x < 0 ? -x : x;
    lanes[1][lane] += x * x * (x * x);
  }
  Powers powers;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    powers.absolute += lanes[0][lane];
    powers.fourth += lanes[1][lane];
  }
  return powers;
}

Powers powers_f64(const double* data, std::size_t count) { return powers_of(data, count); }

template <typename D>
HWY_INLINE std::int64_t below(D d, const hn::TFromD<D>* HWY_RESTRICT data, std::size_t count,
                              hn::TFromD<D> limit) {
  constexpr std::size_t width = hn::MaxLanes(D());
  const auto limits = hn::Set(d, limit);
  auto counts = hn::Zero(Counters<D>());
  std::size_t i = 0;
  for (; i + width <= count; i += width) {
    counts = count_where(d, counts, hn::Lt(hn::Abs(hn::LoadU(d, data + i)), limits));
  }
  std::int64_t sum = total(d, counts);
  for (; i < count; ++i) sum += data[i] < limit && -data[i] < limit;
  return sum;
}

std::int64_t below_f32(const float* data, std::size_t count, float limit) {
  return below(Floats(), data, count, limit);
}

// A power of two that brings the first elements of a block near one, so that float holds their fourth powers
// and those of what is up to 2^31 times as large. 0: they are all zero.
HWY_INLINE float scale_of_first(const float* data) {
  float largest = 0;
  for (std::size_t i = 0; i < kLanes; ++i) {
    const float magnitude = std::abs(data[i]);
    largest = magnitude > largest ? magnitude : largest;
  }
  if (largest == 0) return 0;
  const std::uint32_t exponent = std::bit_cast<std::uint32_t>(largest) >> 23;
  return std::bit_cast<float>((254 - std::clamp<std::uint32_t>(exponent, 7, 247)) << 23);
}

// What powers_f32 adds up in float, kFloatChain elements at a time, in two sets of kLanes lanes.
template <bool with_below>
struct PowerSums {
  hn::Vec<Floats> absolute[2][kFloatVectors];
  hn::Vec<Floats> fourth[2][kFloatVectors];

  // Written out as HWY_INLINE: vectors of Arm have constructors, and those that call them must be of the same
  // instruction set, which an implicit one is not.
  HWY_INLINE PowerSums() {}  // NOLINT(modernize-use-equals-default)

  HWY_INLINE void clear() {
    for (std::size_t v = 0; v < kFloatVectors; ++v) {
      absolute[0][v] = absolute[1][v] = fourth[0][v] = fourth[1][v] = hn::Zero(Floats());
    }
  }

  HWY_INLINE void add(std::size_t set, std::size_t v, const float* data, hn::Vec<Floats> scale,
                      hn::Vec<Floats> limit, hn::Vec<Counters<Floats>>& count) {
    const Floats df;
    const auto x = hn::LoadU(df, data);
    const auto magnitude = hn::Abs(x);
    const auto scaled = hn::Mul(x, scale);
    const auto square = hn::Mul(scaled, scaled);
    absolute[set][v] = hn::Add(absolute[set][v], magnitude);
    fourth[set][v] = hn::MulAdd(square, square, fourth[set][v]);
    if constexpr (with_below) count = count_where(df, count, hn::Lt(magnitude, limit));
  }

  HWY_INLINE void flush_to(double* of_absolute, double* of_fourth) const {
    for (std::size_t set = 0; set < 2; ++set) {
      flush(absolute[set], of_absolute);
      flush(fourth[set], of_fourth);
    }
  }
};

// A block whose range float does not hold, or that has a NaN or an infinity, goes in double.
template <bool with_below>
HWY_INLINE Powers powers_in_float(const float* HWY_RESTRICT data, std::size_t count, float limit) {
  const Floats df;
  Powers powers;
  const float scale = count < kLanes ? 0 : scale_of_first(data);
  HWY_ALIGN double absolute[kLanes] = {};
  HWY_ALIGN double fourth[kLanes] = {};
  hn::Vec<Counters<Floats>> counts[kFloatVectors];
  for (auto& one : counts) one = hn::Zero(Counters<Floats>());
  const auto scales = hn::Set(df, scale);
  const auto limits = hn::Set(df, limit);
  std::size_t i = 0;
  while (i + 2 * kLanes <= count) {
    const std::size_t end = end_of_chain(i, count, kFloatChain);
    PowerSums<with_below> sums;
    sums.clear();
    for (; i < end; i += 2 * kLanes) {
      for (std::size_t v = 0; v < kFloatVectors; ++v) {
        sums.add(0, v, data + i + v * kFloatWidth, scales, limits, counts[v]);
        sums.add(1, v, data + i + kLanes + v * kFloatWidth, scales, limits, counts[v]);
      }
    }
    sums.flush_to(absolute, fourth);
  }
  if constexpr (with_below) {
    for (const auto& one : counts) powers.below += total(df, one);
  }
  const double wide_scale = scale;
  for (; i < count; ++i) {
    const double x = data[i];
    const double scaled = x * wide_scale;
    absolute[i % kLanes] += x < 0 ? -x : x;
    fourth[i % kLanes] += scaled * scaled * (scaled * scaled);
    if constexpr (with_below) powers.below += data[i] < limit && -data[i] < limit;
  }
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    powers.absolute += absolute[lane];
    powers.fourth += fourth[lane];
  }
  constexpr double kMost = std::numeric_limits<double>::max();
  if (scale == 0 ? powers.absolute == 0 : powers.fourth <= kMost && powers.absolute <= kMost) {
    const double back = scale == 0 ? 0 : 1 / (wide_scale * wide_scale);
    powers.fourth = powers.fourth * back * back;
    return powers;
  }
  const Powers exact = powers_of(data, count);
  powers.absolute = exact.absolute;
  powers.fourth = exact.fourth;
  return powers;
}

Powers powers_f32(const float* data, std::size_t count, float limit) {
  return limit > 0 ? powers_in_float<true>(data, count, limit) : powers_in_float<false>(data, count, limit);
}

std::int64_t below_f64(const double* data, std::size_t count, double limit) {
  return below(Doubles(), data, count, limit);
}

std::int64_t count_bits(const std::uint8_t* bytes, std::size_t count) {
  std::int64_t bits = 0;
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes + i, sizeof word);
    bits += __builtin_popcountll(word);
  }
  for (; i < count; ++i) bits += __builtin_popcountll(bytes[i]);
  return bits;
}

}  // namespace

void add_element_kernels_here(Kernels& kernels) {
  kernels.signs_f32 = signs_f32;
  kernels.signs_f64 = signs_f64;
  kernels.above_f32 = above_f32;
  kernels.above_f64 = above_f64;
  kernels.above_half = above_half;
  kernels.half_limits = half_limits;
  kernels.powers_f32 = powers_f32;
  kernels.powers_f64 = powers_f64;
  kernels.below_f32 = below_f32;
  kernels.below_f64 = below_f64;
  kernels.count_bits = count_bits;
}

}  // namespace msprobe::stats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace msprobe::stats {

HWY_EXPORT(add_element_kernels_here);

void add_element_kernels(Kernels& kernels) { HWY_DYNAMIC_DISPATCH(add_element_kernels_here)(kernels); }

}  // namespace msprobe::stats
#endif

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// Highway compiles this file once per instruction set. See docs/adr/0004.

#include "base/kernel_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stats/float_kernels.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>

#include "stats/chains-inl.h"
#include "stats/checksum_chains-inl.h"
#include "stats/sketch-inl.h"

HWY_BEFORE_NAMESPACE();
namespace msprobe::stats::HWY_NAMESPACE {
namespace {

// Smallest and largest element, in kLanes lanes.
template <typename D>
struct Extremes {
  using T = hn::TFromD<D>;
  static constexpr std::size_t kWidth = hn::MaxLanes(D());
  static constexpr std::size_t kVectors = kLanes / kWidth;
  hn::Vec<D> min[kVectors];
  hn::Vec<D> max[kVectors];

  HWY_INLINE explicit Extremes(const Lanes<T>& lanes) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      min[v] = hn::LoadU(D(), lanes.min + v * kWidth);
      max[v] = hn::LoadU(D(), lanes.max + v * kWidth);
    }
  }

  HWY_INLINE void store(Lanes<T>& lanes) const {
    for (std::size_t v = 0; v < kVectors; ++v) {
      hn::StoreU(min[v], D(), lanes.min + v * kWidth);
      hn::StoreU(max[v], D(), lanes.max + v * kWidth);
    }
  }
};

HWY_INLINE hn::Vec<Doubles> load_double(const float* data) {
  return hn::PromoteTo(Doubles(), hn::LoadU(FloatsOfDoubles(), data));
}

HWY_INLINE hn::Vec<Doubles> load_double(const double* data) { return hn::LoadU(Doubles(), data); }

template <typename D>
HWY_INLINE void moments(D d, const hn::TFromD<D>* HWY_RESTRICT data, std::size_t count,
                        Lanes<hn::TFromD<D>>* HWY_RESTRICT lanes) {
  const Doubles dd;
  using E = Extremes<D>;
  E extremes(*lanes);
  hn::Vec<Doubles> sum[kDoubleVectors];
  hn::Vec<Doubles> squares[kDoubleVectors];
  for (std::size_t v = 0; v < kDoubleVectors; ++v) {
    sum[v] = hn::LoadU(dd, lanes->sum + v * kDoubleWidth);
    squares[v] = hn::LoadU(dd, lanes->squares + v * kDoubleWidth);
  }
  const auto zero = hn::Zero(d);
  std::size_t zeros = 0;
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t v = 0; v < E::kVectors; ++v) {
      const auto x = hn::LoadU(d, data + i + v * E::kWidth);
      extremes.min[v] = hn::Min(extremes.min[v], x);
      extremes.max[v] = hn::Max(extremes.max[v], x);
      zeros += hn::CountTrue(d, hn::Eq(x, zero));
    }
    for (std::size_t v = 0; v < kDoubleVectors; ++v) {
      const auto x = load_double(data + i + v * kDoubleWidth);
      sum[v] = hn::Add(sum[v], x);
      squares[v] = hn::MulAdd(x, x, squares[v]);
    }
  }
  extremes.store(*lanes);
  for (std::size_t v = 0; v < kDoubleVectors; ++v) {
    hn::StoreU(sum[v], dd, lanes->sum + v * kDoubleWidth);
    hn::StoreU(squares[v], dd, lanes->squares + v * kDoubleWidth);
  }
  lanes->zeros += static_cast<std::int64_t>(zeros);
  for (std::size_t lane = 0; i < count; ++i, ++lane) add_one(data[i], lane, lanes);
}

void moments_f32(const float* data, std::size_t count, Lanes<float>* lanes) {
  moments(Floats(), data, count, lanes);
}

void moments_f64(const double* data, std::size_t count, Lanes<double>* lanes) {
  moments(Doubles(), data, count, lanes);
}

// What fast_f32 keeps in registers from one chain of float additions to the next.
struct FloatState {
  Extremes<Floats> extremes;
  hn::Vec<Counters<Floats>> zeros[kFloatVectors];

  HWY_INLINE explicit FloatState(const Lanes<float>& lanes) : extremes(lanes) {
    for (auto& count : zeros) count = hn::Zero(Counters<Floats>());
  }

  HWY_INLINE void store(Lanes<float>& lanes) const {
    extremes.store(lanes);
    for (const auto& count : zeros) lanes.zeros += total(Floats(), count);
  }
};

// 2 * kLanes elements.
template <bool with_signs>
HWY_INLINE void add_step_f32(const float* HWY_RESTRICT data, FloatState& s, FloatSums& sums,
                             std::uint8_t* HWY_RESTRICT signs) {
  const Floats df;
  const auto zero = hn::Zero(df);
  const auto* ahead = reinterpret_cast<const std::uint8_t*>(data) + kPrefetchBytes;
  hwy::Prefetch(ahead);
  hwy::Prefetch(ahead + 64);
  hn::Mask<Floats> positive[2 * kFloatVectors];
  for (std::size_t v = 0; v < kFloatVectors; ++v) {
    const auto a = hn::LoadU(df, data + v * kFloatWidth);
    const auto b = hn::LoadU(df, data + kLanes + v * kFloatWidth);
    s.extremes.min[v] = hn::Min(s.extremes.min[v], hn::Min(a, b));
    s.extremes.max[v] = hn::Max(s.extremes.max[v], hn::Max(a, b));
    s.zeros[v] = count_where(df, s.zeros[v], hn::Eq(a, zero));
    s.zeros[v] = count_where(df, s.zeros[v], hn::Eq(b, zero));
    sums.add(v, a, b);
    if constexpr (with_signs) {
      positive[v] = hn::Gt(a, zero);
      positive[kFloatVectors + v] = hn::Gt(b, zero);
    }
  }
  if constexpr (with_signs) store_bits(df, positive, signs);
}

// The steps of a chain that start at i and before `end`. Returns where the next one starts.
template <bool with_signs>
HWY_INLINE std::size_t add_chain_f32(const float* HWY_RESTRICT data, std::size_t i, std::size_t end,
                                     FloatState& state, Lanes<float>* HWY_RESTRICT lanes,
                                     std::uint8_t* HWY_RESTRICT signs) {
  FloatState s = state;  // a copy, or the compiler keeps it in memory
  FloatSums sums;
  for (; i < end; i += 2 * kLanes) {
    add_step_f32<with_signs>(data + i, s, sums, with_signs ? signs + i / 8 : nullptr);
  }
  sums.flush_to(lanes);
  state = s;
  return i;
}

template <bool with_signs>
HWY_INLINE void fast_f32_of(const float* HWY_RESTRICT data, std::size_t count,
                            Lanes<float>* HWY_RESTRICT lanes, std::uint8_t* HWY_RESTRICT signs,
                            const Visitor& visitor) {
  FloatState state(*lanes);
  std::size_t i = 0;
  std::size_t visited = 0;
  while (i + 2 * kLanes <= count) {
    const std::size_t end = end_of_chain(i, count, kFloatChain);
    i = add_chain_f32<with_signs>(data, i, end, state, lanes, signs);
    visit(visitor, i, kHalfChain, &visited);
  }
  state.store(*lanes);
  if constexpr (with_signs) store_last_bits(i, count, signs, [=](std::size_t k) { return data[k] > 0; });
  for (std::size_t place = 0; i < count; ++i, ++place) add_one(data[i], place % kLanes, lanes);
  visit(visitor, count, 1, &visited);
}

void fast_f32(const float* data, std::size_t count, Lanes<float>* lanes, std::uint8_t* signs,
              const Visitor& visitor) {
  if (signs != nullptr) {
    fast_f32_of<true>(data, count, lanes, signs, visitor);
  } else {
    fast_f32_of<false>(data, count, lanes, signs, visitor);
  }
}

struct Float32Chains {
  using Element = float;
  using State = FloatState;
  using Sketched = SketchFloat32;
#if MSPROBE_CHECKSUM_CHAINS
  using Message = crc32_avx512::Bytes;
#endif
  static constexpr std::size_t kChain = kFloatChain;

  static HWY_INLINE State start(const Lanes<float>& lanes) { return State(lanes); }
  static HWY_INLINE void add_step(const Element* data, State& state, FloatSums& sums) {
    add_step_f32<false>(data, state, sums, nullptr);
  }
  static HWY_INLINE void store(const State& state, Lanes<float>& lanes) { state.store(lanes); }
  static void add_rest(const Element* data, std::size_t count, Lanes<float>* lanes, Crc32& checksum) {
    fast_f32(data, count, lanes, nullptr, Visitor());
    checksum.add(data, count * sizeof(Element));
  }
};

}  // namespace

void add_float_kernels_here(Kernels& kernels) {
  kernels.fast_f32 = fast_f32;
  kernels.fast_f32_with_sketch = fast_with_sketch<Float32Chains>;
#if MSPROBE_CHECKSUM_CHAINS
  if (can_chain_checksums()) kernels.fast_f32_with_checksum = fast_with_checksum<Float32Chains>;
#endif
  kernels.moments_f32 = moments_f32;
  kernels.moments_f64 = moments_f64;
}

}  // namespace msprobe::stats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace msprobe::stats {

HWY_EXPORT(add_float_kernels_here);

void add_float_kernels(Kernels& kernels) { HWY_DYNAMIC_DISPATCH(add_float_kernels_here)(kernels); }

}  // namespace msprobe::stats
#endif

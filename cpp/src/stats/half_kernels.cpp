// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// Highway compiles this file once per instruction set. See docs/adr/0004.

#include "base/kernel_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stats/half_kernels.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>

#include "stats/chains-inl.h"
#include "stats/checksum_chains-inl.h"
#include "stats/sketch-inl.h"

HWY_BEFORE_NAMESPACE();
namespace msprobe::stats::HWY_NAMESPACE {
namespace {

// Two times kLanes 16-bit floats become two sets of float vectors. Which element goes to which set is up to
// the kind.
struct UnpackBFloat16 {
  static constexpr Half kHalf = Half::kBFloat16;

  // A bfloat16 is the upper half of a float, a zero the lower. Within 128 bits the first four elements become
  // the one set and the last four the other, for registers of any size.
  static HWY_INLINE void unpack(const std::uint16_t* data, std::size_t v, hn::Vec<Floats>* a,
                                hn::Vec<Floats>* b) {
    const Floats df;
#if HWY_TARGET == HWY_SCALAR
    const std::uint16_t* first = data + v / 4 * 8 + v % 4;
    *a = hn::Set(df, widen_one(first[0], kHalf));
    *b = hn::Set(df, widen_one(first[4], kHalf));
#else
    const hn::Repartition<std::uint16_t, Floats> d16;
    const auto bits = hn::LoadU(d16, data + 2 * v * kFloatWidth);
    *a = hn::BitCast(df, hn::InterleaveLower(d16, hn::Zero(d16), bits));
    *b = hn::BitCast(df, hn::InterleaveUpper(d16, hn::Zero(d16), bits));
#endif
  }
};

struct UnpackFloat16 {
  static constexpr Half kHalf = Half::kFloat16;

  static HWY_INLINE void unpack(const std::uint16_t* data, std::size_t v, hn::Vec<Floats>* a,
                                hn::Vec<Floats>* b) {
    const Floats df;
    const hn::Rebind<std::uint16_t, Floats> d16;
    *a = promote_f16(df, hn::LoadU(d16, data + v * kFloatWidth));
    *b = promote_f16(df, hn::LoadU(d16, data + kLanes + v * kFloatWidth));
  }
};

// One value out of `n`; a tree, of which compilers make vector instructions.
template <std::size_t n, typename T, typename Combine>
HWY_INLINE T reduce(const T* lanes, Combine combine) {
  if constexpr (n == 1) {
    return lanes[0];
  } else {
    HWY_ALIGN T half[n / 2];
    for (std::size_t i = 0; i < n / 2; ++i) half[i] = combine(lanes[i], lanes[i + n / 2]);
    return reduce<n / 2>(half, combine);
  }
}

template <typename D, typename Combine>
HWY_INLINE hn::TFromD<D> reduce(D d, hn::Vec<D> vector, Combine combine) {
  HWY_ALIGN hn::TFromD<D> lanes[hn::MaxLanes(D())];
  hn::Store(vector, d, lanes);
  return reduce<hn::MaxLanes(D())>(lanes, combine);
}

// What fast_half keeps in registers from one chain of float additions to the next.
//
// Smallest and largest 16-bit float are found by their bits. As signed integers the positive ones are in
// order and above the negative ones; as unsigned integers the negative ones are in reverse order and above
// the positive ones.
struct HalfState {
  hn::Vec<Shorts> largest_signed;
  hn::Vec<UnsignedShorts> largest_unsigned;
  hn::Vec<UnsignedShorts> smallest_unsigned;
  hn::Vec<Shorts> zeros;  // at most one per 32 elements and lane: room for a million

  HWY_INLINE HalfState() {
    largest_signed = hn::Set(Shorts(), -0x8000);
    largest_unsigned = hn::Zero(UnsignedShorts());
    smallest_unsigned = hn::Set(UnsignedShorts(), 0xFFFF);
    zeros = hn::Zero(Shorts());
  }

  HWY_INLINE void add(hn::Vec<Shorts> bits) {
    const Shorts ds;
    const auto unsigned_bits = hn::BitCast(UnsignedShorts(), bits);
    largest_signed = hn::Max(largest_signed, bits);
    largest_unsigned = hn::Max(largest_unsigned, unsigned_bits);
    smallest_unsigned = hn::Min(smallest_unsigned, unsigned_bits);
    zeros = count_where(ds, zeros, has_none(ds, bits, hn::Set(ds, 0x7FFF)));
  }

  HWY_INLINE void store(Lanes<float>& lanes, Half kind) const {
    lanes.zeros += total(Shorts(), zeros);
    const auto larger = [](auto a, auto b) { return a > b ? a : b; };
    const int s = reduce(Shorts(), largest_signed, larger);
    const unsigned u = reduce(UnsignedShorts(), largest_unsigned, larger);
    const unsigned l =
        reduce(UnsignedShorts(), smallest_unsigned, [](auto a, auto b) { return a < b ? a : b; });
    // Without a positive element the negative one of the least magnitude is the largest, and the other way
    // round.
    const float max = widen_one(static_cast<std::uint16_t>(s >= 0 ? s : l), kind);
    const float min = widen_one(static_cast<std::uint16_t>(u >= 0x8000 ? u : l), kind);
    lanes.min[0] = min < lanes.min[0] ? min : lanes.min[0];
    lanes.max[0] = max > lanes.max[0] ? max : lanes.max[0];
  }
};

// 2 * kLanes elements.
template <typename Unpack, bool with_signs>
HWY_INLINE void add_step_half(const std::uint16_t* HWY_RESTRICT data, HalfState& s, FloatSums& sums,
                              std::uint8_t* HWY_RESTRICT signs) {
  constexpr std::size_t vectors = 2 * kLanes / kShortWidth;
  hwy::Prefetch(reinterpret_cast<const std::uint8_t*>(data) + kPrefetchBytes);
  hn::Mask<UnsignedShorts> positive[vectors];
  for (std::size_t v = 0; v < vectors; ++v) {
    const auto bits = hn::LoadU(UnsignedShorts(), data + v * kShortWidth);
    s.add(hn::BitCast(Shorts(), bits));
    if constexpr (with_signs) positive[v] = is_positive(bits, Unpack::kHalf);
  }
  if constexpr (with_signs) store_bits(UnsignedShorts(), positive, signs);
  for (std::size_t v = 0; v < kFloatVectors; ++v) {
    hn::Vec<Floats> a;
    hn::Vec<Floats> b;
    Unpack::unpack(data, v, &a, &b);
    sums.add(v, a, b);
  }
}

// The steps of a chain that start at i and before `end`. Returns where the next one starts.
template <typename Unpack, bool with_signs>
HWY_INLINE std::size_t add_chain_half(const std::uint16_t* HWY_RESTRICT data, std::size_t i, std::size_t end,
                                      HalfState& state, Lanes<float>* HWY_RESTRICT lanes,
                                      std::uint8_t* HWY_RESTRICT signs) {
  HalfState s = state;  // a copy, or the compiler keeps it in memory
  FloatSums sums;
  for (; i < end; i += 2 * kLanes) {
    add_step_half<Unpack, with_signs>(data + i, s, sums, with_signs ? signs + i / 8 : nullptr);
  }
  sums.flush_to(lanes);
  state = s;
  return i;
}

template <typename Unpack, bool with_signs>
HWY_INLINE void fast_half_of(const std::uint16_t* HWY_RESTRICT data, std::size_t count,
                             Lanes<float>* HWY_RESTRICT lanes, std::uint8_t* HWY_RESTRICT signs,
                             const Visitor& visitor) {
  HalfState state;
  std::size_t i = 0;
  std::size_t visited = 0;
  while (i + 2 * kLanes <= count) {
    const std::size_t end = end_of_chain(i, count, kHalfChain);
    i = add_chain_half<Unpack, with_signs>(data, i, end, state, lanes, signs);
    visit(visitor, i, kHalfChain, &visited);
  }
  if (i > 0) state.store(*lanes, Unpack::kHalf);
  if constexpr (with_signs) {
    store_last_bits(i, count, signs, [=](std::size_t k) { return is_positive(data[k], Unpack::kHalf); });
  }
  for (std::size_t place = 0; i < count; ++i, ++place) {
    add_one(widen_one(data[i], Unpack::kHalf), place % kLanes, lanes);
  }
  visit(visitor, count, 1, &visited);
}

template <typename Unpack>
void fast_half_of(const std::uint16_t* data, std::size_t count, Lanes<float>* lanes, std::uint8_t* signs,
                  const Visitor& visitor) {
  if (signs != nullptr) {
    fast_half_of<Unpack, true>(data, count, lanes, signs, visitor);
  } else {
    fast_half_of<Unpack, false>(data, count, lanes, signs, visitor);
  }
}

void fast_half(const std::uint16_t* data, std::size_t count, Half kind, Lanes<float>* lanes,
               std::uint8_t* signs, const Visitor& visitor) {
  if (kind == Half::kBFloat16) {
    fast_half_of<UnpackBFloat16>(data, count, lanes, signs, visitor);
  } else {
    fast_half_of<UnpackFloat16>(data, count, lanes, signs, visitor);
  }
}

template <typename Unpack, typename SketchedHalf>
struct HalfChains {
  using Element = std::uint16_t;
  using State = HalfState;
  using Sketched = SketchedHalf;
  static constexpr std::size_t kChain = kHalfChain;

  static HWY_INLINE State start(const Lanes<float>&) { return {}; }
  static HWY_INLINE void add_step(const Element* data, State& state, FloatSums& sums) {
    add_step_half<Unpack, false>(data, state, sums, nullptr);
  }
  static HWY_INLINE void store(const State& state, Lanes<float>& lanes) { state.store(lanes, Unpack::kHalf); }
};

#if MSPROBE_CHECKSUM_CHAINS
struct BFloat16WithChecksum : HalfChains<UnpackBFloat16, SketchBFloat16> {
  using Message = crc32_avx512::WidenedBFloat16;
  static void add_rest(const Element* data, std::size_t count, Lanes<float>* lanes, Crc32& checksum) {
    fast_half(data, count, Half::kBFloat16, lanes, nullptr, Visitor());
    checksum.add_widened(data, count);
  }
};
#endif

}  // namespace

void add_half_kernels_here(Kernels& kernels) {
  kernels.fast_half = fast_half;
  kernels.fast_float16_with_sketch = fast_with_sketch<HalfChains<UnpackFloat16, SketchFloat16>>;
  kernels.fast_bfloat16_with_sketch = fast_with_sketch<HalfChains<UnpackBFloat16, SketchBFloat16>>;
#if MSPROBE_CHECKSUM_CHAINS
  if (can_chain_checksums()) kernels.fast_bfloat16_with_checksum = fast_with_checksum<BFloat16WithChecksum>;
#endif
}

}  // namespace msprobe::stats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace msprobe::stats {

HWY_EXPORT(add_half_kernels_here);

void add_half_kernels(Kernels& kernels) { HWY_DYNAMIC_DISPATCH(add_half_kernels_here)(kernels); }

}  // namespace msprobe::stats
#endif

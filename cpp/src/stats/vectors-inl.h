// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// What the kernels have in common, for the instruction set that Highway compiles at the moment: so the
// include guard lets it in once for each.

#if defined(MSPROBE_STATS_VECTORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MSPROBE_STATS_VECTORS_INL_H
#undef MSPROBE_STATS_VECTORS_INL_H
#else
#define MSPROBE_STATS_VECTORS_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "base/half-inl.h"
#include "stats/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace msprobe::stats::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using msprobe::HWY_NAMESPACE::promote_f16;
using msprobe::HWY_NAMESPACE::widen_one;

// Vectors that together hold kLanes elements.
using Floats = hn::CappedTag<float, kLanes>;
using Doubles = hn::CappedTag<double, kLanes>;
using FloatsOfDoubles = hn::Rebind<float, Doubles>;
constexpr std::size_t kFloatWidth = hn::MaxLanes(Floats());
constexpr std::size_t kDoubleWidth = hn::MaxLanes(Doubles());
constexpr std::size_t kFloatVectors = kLanes / kFloatWidth;
constexpr std::size_t kDoubleVectors = kLanes / kDoubleWidth;

using Shorts = hn::CappedTag<std::int16_t, 2 * kLanes>;
constexpr std::size_t kShortWidth = hn::MaxLanes(Shorts());

using UnsignedShorts = hn::RebindToUnsigned<Shorts>;

// Integers of the size of T's lanes, counting what a comparison found: `counts` plus one where `mask` is
// true.
template <typename D>
using Counters = hn::RebindToSigned<D>;

template <typename D, typename M>
HWY_INLINE hn::Vec<Counters<D>> count_where(D, hn::Vec<Counters<D>> counts, M mask) {
  const Counters<D> di;
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86  // one masked addition
  return hn::IfThenElse(hn::RebindMask(di, mask), hn::Add(counts, hn::Set(di, 1)), counts);
#else  // true is -1
  return hn::Sub(counts, hn::BitCast(di, hn::VecFromMask(D(), mask)));
#endif
}

// Where `x` and `bits` have no common bit.
template <typename D>
HWY_INLINE hn::Mask<D> has_none(D d, hn::Vec<D> x, hn::Vec<D> bits) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86  // one instruction, which compilers do not find by themselves
  if constexpr (sizeof(hn::Vec<D>) == 64 && sizeof(hn::TFromD<D>) == 2) {
    return hn::Mask<D>{_mm512_testn_epi16_mask(x.raw, bits.raw)};
  }
#endif
  return hn::Eq(hn::And(x, bits), hn::Zero(d));
}

// Sum of all counters; each is at least 0.
template <typename D>
HWY_INLINE std::int64_t total(D, hn::Vec<Counters<D>> counts) {
  const Counters<D> di;
  HWY_ALIGN hn::TFromD<Counters<D>> lanes[hn::MaxLanes(di)];
  hn::Store(counts, di, lanes);
  std::int64_t sum = 0;
  for (const auto lane : lanes) sum += lane;
  return sum;
}

// Stores consecutive masks as packed bits; together they are of a multiple of 8 elements.
template <typename D, std::size_t n>
HWY_INLINE void store_bits(D d, const hn::Mask<D> (&masks)[n], std::uint8_t* HWY_RESTRICT bits) {
  constexpr std::size_t width = hn::MaxLanes(D());
  static_assert(n * width % 8 == 0);
  if constexpr (width >= 8) {
    for (std::size_t k = 0; k < n; ++k) hn::StoreMaskBits(d, masks[k], bits + k * width / 8);
  } else {
    for (std::size_t k = 0; k < n * width / 8; ++k) {
      unsigned byte = 0;
      for (std::size_t part = 0; part < 8 / width; ++part) {
        std::uint8_t few[8];
        hn::StoreMaskBits(d, masks[k * 8 / width + part], few);
        byte |= (few[0] & ((1U << width) - 1)) << (part * width);
      }
      bits[k] = static_cast<std::uint8_t>(byte);
    }
  }
}

// Stores the bits of `single(i)` for the elements [first, count), the last ones; `first` is a multiple of 8.
template <typename Single>
HWY_INLINE void store_last_bits(std::size_t first, std::size_t count, std::uint8_t* HWY_RESTRICT bits,
                                Single single) {
  for (std::size_t i = first; i < count; ++i) {
    if (i % 8 == 0) bits[i / 8] = 0;
    bits[i / 8] |= static_cast<std::uint8_t>(static_cast<unsigned>(single(i)) << (i % 8));
  }
}

// 16-bit floats above zero are the integers 1 ... infinity; less one, all others are larger as unsigned
// integers.
constexpr std::uint16_t infinity_of(Half kind) { return kind == Half::kFloat16 ? 0x7C00 : 0x7F80; }

HWY_INLINE hn::Mask<UnsignedShorts> is_positive(hn::Vec<UnsignedShorts> bits, Half kind) {
  const UnsignedShorts du;
  return hn::Lt(hn::Sub(bits, hn::Set(du, 1)), hn::Set(du, infinity_of(kind)));
}

HWY_INLINE bool is_positive(std::uint16_t bits, Half kind) {
  return static_cast<std::uint16_t>(bits - 1) < infinity_of(kind);
}

}  // namespace
}  // namespace msprobe::stats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

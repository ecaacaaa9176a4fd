// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// Highway compiles this file once per instruction set. See docs/adr/0004.

#include "stats/kernels.h"

#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

#include "msprobe/log.h"

// Scalable vectors have no fixed size, which the arrays of vectors below need; such processors use NEON or
// plain code.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stats/kernels.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace msprobe::stats::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Vectors that together hold kLanes elements.
using Floats = hn::CappedTag<float, kLanes>;
using Doubles = hn::CappedTag<double, kLanes>;
using FloatsOfDoubles = hn::Rebind<float, Doubles>;
constexpr std::size_t kFloatWidth = hn::MaxLanes(Floats());
constexpr std::size_t kDoubleWidth = hn::MaxLanes(Doubles());
constexpr std::size_t kFloatVectors = kLanes / kFloatWidth;
constexpr std::size_t kDoubleVectors = kLanes / kDoubleWidth;

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

// One element on its own: the tail of a tensor. Same lanes and same operations as the vector code.
template <typename T>
HWY_INLINE void add_one(T value, std::size_t lane, Lanes<T>* lanes) {
  const double wide = static_cast<double>(value);
  lanes->sum[lane] += wide;
  lanes->squares[lane] += wide * wide;
  lanes->min[lane] = value < lanes->min[lane] ? value : lanes->min[lane];
  lanes->max[lane] = value > lanes->max[lane] ? value : lanes->max[lane];
  lanes->zeros += value == 0;
}

void moments_f32(const float* HWY_RESTRICT data, std::size_t count, Lanes<float>* HWY_RESTRICT lanes) {
  const Floats df;
  const Doubles dd;
  const FloatsOfDoubles dh;
  hn::Vec<Floats> min[kFloatVectors];
  hn::Vec<Floats> max[kFloatVectors];
  hn::Vec<Doubles> sum[kDoubleVectors];
  hn::Vec<Doubles> squares[kDoubleVectors];
  for (std::size_t v = 0; v < kFloatVectors; ++v) {
    min[v] = hn::LoadU(df, lanes->min + v * kFloatWidth);
    max[v] = hn::LoadU(df, lanes->max + v * kFloatWidth);
  }
  for (std::size_t v = 0; v < kDoubleVectors; ++v) {
    sum[v] = hn::LoadU(dd, lanes->sum + v * kDoubleWidth);
    squares[v] = hn::LoadU(dd, lanes->squares + v * kDoubleWidth);
  }
  const auto zero = hn::Zero(df);
  std::size_t zeros = 0;
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t v = 0; v < kFloatVectors; ++v) {
      const auto x = hn::LoadU(df, data + i + v * kFloatWidth);
      min[v] = hn::Min(min[v], x);
      max[v] = hn::Max(max[v], x);
      zeros += hn::CountTrue(df, hn::Eq(x, zero));
    }
    for (std::size_t v = 0; v < kDoubleVectors; ++v) {
      const auto x = hn::PromoteTo(dd, hn::LoadU(dh, data + i + v * kDoubleWidth));
      sum[v] = hn::Add(sum[v], x);
      squares[v] = hn::MulAdd(x, x, squares[v]);
    }
  }
  for (std::size_t v = 0; v < kFloatVectors; ++v) {
    hn::StoreU(min[v], df, lanes->min + v * kFloatWidth);
    hn::StoreU(max[v], df, lanes->max + v * kFloatWidth);
  }
  for (std::size_t v = 0; v < kDoubleVectors; ++v) {
    hn::StoreU(sum[v], dd, lanes->sum + v * kDoubleWidth);
    hn::StoreU(squares[v], dd, lanes->squares + v * kDoubleWidth);
  }
  lanes->zeros += static_cast<std::int64_t>(zeros);
  for (std::size_t lane = 0; i < count; ++i, ++lane) add_one(data[i], lane, lanes);
}

void moments_f64(const double* HWY_RESTRICT data, std::size_t count, Lanes<double>* HWY_RESTRICT lanes) {
  const Doubles dd;
  hn::Vec<Doubles> min[kDoubleVectors];
  hn::Vec<Doubles> max[kDoubleVectors];
  hn::Vec<Doubles> sum[kDoubleVectors];
  hn::Vec<Doubles> squares[kDoubleVectors];
  for (std::size_t v = 0; v < kDoubleVectors; ++v) {
    min[v] = hn::LoadU(dd, lanes->min + v * kDoubleWidth);
    max[v] = hn::LoadU(dd, lanes->max + v * kDoubleWidth);
    sum[v] = hn::LoadU(dd, lanes->sum + v * kDoubleWidth);
    squares[v] = hn::LoadU(dd, lanes->squares + v * kDoubleWidth);
  }
  const auto zero = hn::Zero(dd);
  std::size_t zeros = 0;
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t v = 0; v < kDoubleVectors; ++v) {
      const auto x = hn::LoadU(dd, data + i + v * kDoubleWidth);
      min[v] = hn::Min(min[v], x);
      max[v] = hn::Max(max[v], x);
      zeros += hn::CountTrue(dd, hn::Eq(x, zero));
      sum[v] = hn::Add(sum[v], x);
      squares[v] = hn::MulAdd(x, x, squares[v]);
    }
  }
  for (std::size_t v = 0; v < kDoubleVectors; ++v) {
    hn::StoreU(min[v], dd, lanes->min + v * kDoubleWidth);
    hn::StoreU(max[v], dd, lanes->max + v * kDoubleWidth);
    hn::StoreU(sum[v], dd, lanes->sum + v * kDoubleWidth);
    hn::StoreU(squares[v], dd, lanes->squares + v * kDoubleWidth);
  }
  lanes->zeros += static_cast<std::int64_t>(zeros);
  for (std::size_t lane = 0; i < count; ++i, ++lane) add_one(data[i], lane, lanes);
}

// Adds a set of float vectors to double lanes.
HWY_INLINE void flush(const hn::Vec<Floats>* vectors, double* HWY_RESTRICT lanes) {
  const Floats df;
  const Doubles dd;
  const FloatsOfDoubles dh;
  HWY_ALIGN float buffer[kLanes];
  for (std::size_t v = 0; v < kFloatVectors; ++v) hn::Store(vectors[v], df, buffer + v * kFloatWidth);
  for (std::size_t v = 0; v < kDoubleVectors; ++v) {
    double* lane = lanes + v * kDoubleWidth;
    const auto x = hn::PromoteTo(dd, hn::Load(dh, buffer + v * kDoubleWidth));
    hn::StoreU(hn::Add(hn::LoadU(dd, lane), x), dd, lane);
  }
}

// Sums and sums of squares in float, in two sets of kLanes lanes.
struct FloatSums {
  hn::Vec<Floats> sum_a[kFloatVectors];
  hn::Vec<Floats> sum_b[kFloatVectors];
  hn::Vec<Floats> squares_a[kFloatVectors];
  hn::Vec<Floats> squares_b[kFloatVectors];

  HWY_INLINE FloatSums() {
    for (std::size_t v = 0; v < kFloatVectors; ++v) {
      sum_a[v] = sum_b[v] = squares_a[v] = squares_b[v] = hn::Zero(Floats());
    }
  }

  HWY_INLINE void add(std::size_t v, hn::Vec<Floats> a, hn::Vec<Floats> b) {
    sum_a[v] = hn::Add(sum_a[v], a);
    sum_b[v] = hn::Add(sum_b[v], b);
    squares_a[v] = hn::MulAdd(a, a, squares_a[v]);
    squares_b[v] = hn::MulAdd(b, b, squares_b[v]);
  }

  HWY_INLINE void flush_to(Lanes<float>* lanes) const {
    flush(sum_a, lanes->sum);
    flush(sum_b, lanes->sum);
    flush(squares_a, lanes->squares);
    flush(squares_b, lanes->squares);
  }
};

// Asks for memory that far ahead of what is being added: the processor's own prefetcher stops at the end of
// each page.
constexpr std::size_t kPrefetchBytes = 2048;

// Where a chain that starts at element i ends: the last start of a full step of 2 * kLanes elements in it,
// plus one.
HWY_INLINE std::size_t end_of_chain(std::size_t i, std::size_t count, std::size_t chain) {
  return count - i < chain ? count - (2 * kLanes - 1) : i + chain;
}

// Shows the visitor what lies between the elements `visited` and `now`, once that is a stretch.
HWY_INLINE void visit(const Visitor& visitor, std::size_t now, std::size_t stretch, std::size_t* visited) {
  if (visitor.call != nullptr && now - *visited >= stretch) {
    visitor.call(visitor.self, *visited, now - *visited);
    *visited = now;
  }
}

void fast_f32(const float* HWY_RESTRICT data, std::size_t count, Lanes<float>* HWY_RESTRICT lanes,
              const Visitor& visitor) {
  const Floats df;
  const auto zero = hn::Zero(df);
  hn::Vec<Floats> min[kFloatVectors];
  hn::Vec<Floats> max[kFloatVectors];
  hn::Vec<Counters<Floats>> zeros[kFloatVectors];
  for (std::size_t v = 0; v < kFloatVectors; ++v) {
    min[v] = hn::LoadU(df, lanes->min + v * kFloatWidth);
    max[v] = hn::LoadU(df, lanes->max + v * kFloatWidth);
    zeros[v] = hn::Zero(Counters<Floats>());
  }
  std::size_t i = 0;
  std::size_t visited = 0;
  while (i + 2 * kLanes <= count) {
    FloatSums sums;
    for (const std::size_t end = end_of_chain(i, count, kFloatChain); i < end; i += 2 * kLanes) {
      const auto* ahead = reinterpret_cast<const std::uint8_t*>(data + i) + kPrefetchBytes;
      hwy::Prefetch(ahead);
      hwy::Prefetch(ahead + 64);
      for (std::size_t v = 0; v < kFloatVectors; ++v) {
        const auto a = hn::LoadU(df, data + i + v * kFloatWidth);
        const auto b = hn::LoadU(df, data + i + kLanes + v * kFloatWidth);
        min[v] = hn::Min(min[v], hn::Min(a, b));
        max[v] = hn::Max(max[v], hn::Max(a, b));
        zeros[v] = count_where(df, zeros[v], hn::Eq(a, zero));
        zeros[v] = count_where(df, zeros[v], hn::Eq(b, zero));
        sums.add(v, a, b);
      }
    }
    sums.flush_to(lanes);
    visit(visitor, i, kHalfChain, &visited);
  }
  for (std::size_t v = 0; v < kFloatVectors; ++v) {
    hn::StoreU(min[v], df, lanes->min + v * kFloatWidth);
    hn::StoreU(max[v], df, lanes->max + v * kFloatWidth);
    lanes->zeros += total(df, zeros[v]);
  }
  for (std::size_t lane = 0; i < count; ++i, lane = (lane + 1) % kLanes) add_one(data[i], lane, lanes);
  visit(visitor, count, 1, &visited);
}

// float16 to float, for vectors of D's floats. The emulation that Highway has for processors without the
// instruction knows no Inf and no NaN.
template <typename D>
HWY_INLINE hn::Vec<D> promote_f16(D df, hn::Vec<hn::Rebind<std::uint16_t, D>> half) {
#if HWY_TARGET == HWY_NEON || (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2)
  return hn::PromoteTo(df, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), half));
#else
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::PromoteTo(du, half);
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000)));
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFF));
  const auto shifted = hn::ShiftLeft<13>(magnitude);
  // The exponents differ by 112; a multiplication adjusts it for denormals as well.
  const auto finite = hn::BitCast(du, hn::Mul(hn::BitCast(df, shifted), hn::Set(df, 0x1p112F)));
  const auto special = hn::Or(shifted, hn::Set(du, 0x7F800000));
  const auto quiet =
      hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x7C00)), hn::Set(du, 0x00400000), hn::Zero(du));
  const auto value = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x7BFF)), hn::Or(special, quiet), finite);
  return hn::BitCast(df, hn::Or(sign, value));
#endif
}

// Two times kLanes 16-bit floats become two sets of float vectors. Which element goes to which set is up to
// the kind.
struct UnpackBFloat16 {
  // A bfloat16 is the upper half of a float: of each 32-bit word, the odd element is in place and the even
  // one a shift away.
  static HWY_INLINE void unpack(const std::uint16_t* data, std::size_t v, hn::Vec<Floats>* a,
                                hn::Vec<Floats>* b) {
    const Floats df;
    const hn::RebindToUnsigned<Floats> du;
    const auto words = hn::LoadU(du, reinterpret_cast<const std::uint32_t*>(data + 2 * v * kFloatWidth));
    *a = hn::BitCast(df, hn::ShiftLeft<16>(words));
    *b = hn::BitCast(df, hn::And(words, hn::Set(du, 0xFFFF0000U)));
  }
};

struct UnpackFloat16 {
  static HWY_INLINE void unpack(const std::uint16_t* data, std::size_t v, hn::Vec<Floats>* a,
                                hn::Vec<Floats>* b) {
    const Floats df;
    const hn::Rebind<std::uint16_t, Floats> d16;
    *a = promote_f16(df, hn::LoadU(d16, data + v * kFloatWidth));
    *b = promote_f16(df, hn::LoadU(d16, data + kLanes + v * kFloatWidth));
  }
};

float widen_one(std::uint16_t bits, Half kind) {
  if (kind == Half::kBFloat16) {
    const std::uint32_t word = static_cast<std::uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &word, sizeof value);
    return value;
  }
  const hn::CappedTag<float, 1> df;
  const hn::Rebind<std::uint16_t, decltype(df)> d16;
  return hn::GetLane(promote_f16(df, hn::Set(d16, bits)));
}

using Shorts = hn::CappedTag<std::int16_t, 2 * kLanes>;
constexpr std::size_t kShortWidth = hn::MaxLanes(Shorts());

using UnsignedShorts = hn::RebindToUnsigned<Shorts>;

// Smallest and largest 16-bit float by their bits. As signed integers the positive ones are in order and
// above the negative ones; as unsigned integers the negative ones are in reverse order and above the positive
// ones.
HWY_INLINE void add_extremes(hn::Vec<Shorts> largest_signed, hn::Vec<UnsignedShorts> largest_unsigned,
                             hn::Vec<UnsignedShorts> smallest_unsigned, Half kind, Lanes<float>* lanes) {
  HWY_ALIGN std::int16_t s[kShortWidth];
  HWY_ALIGN std::uint16_t u[kShortWidth];
  HWY_ALIGN std::uint16_t l[kShortWidth];
  hn::Store(largest_signed, Shorts(), s);
  hn::Store(largest_unsigned, UnsignedShorts(), u);
  hn::Store(smallest_unsigned, UnsignedShorts(), l);
  for (std::size_t i = 1; i < kShortWidth; ++i) {
    s[0] = s[i] > s[0] ? s[i] : s[0];
    u[0] = u[i] > u[0] ? u[i] : u[0];
    l[0] = l[i] < l[0] ? l[i] : l[0];
  }
  // Without a positive element the negative one of the least magnitude is the largest, and the other way
  // round.
  const float max = widen_one(s[0] >= 0 ? static_cast<std::uint16_t>(s[0]) : l[0], kind);
  const float min = widen_one(u[0] >= 0x8000 ? u[0] : l[0], kind);
  lanes->min[0] = min < lanes->min[0] ? min : lanes->min[0];
  lanes->max[0] = max > lanes->max[0] ? max : lanes->max[0];
}

template <typename Unpack>
HWY_INLINE void fast_half_of(const std::uint16_t* HWY_RESTRICT data, std::size_t count, Half kind,
                             Lanes<float>* HWY_RESTRICT lanes, const Visitor& visitor) {
  const Shorts ds;
  const auto magnitude = hn::Set(ds, 0x7FFF);
  auto largest_signed = hn::Set(ds, -0x8000);
  auto largest_unsigned = hn::Zero(UnsignedShorts());
  auto smallest_unsigned = hn::Set(UnsignedShorts(), 0xFFFF);
  auto zeros = hn::Zero(ds);  // at most one per 32 elements and lane: fits for a million elements
  std::size_t i = 0;
  std::size_t visited = 0;
  while (i + 2 * kLanes <= count) {
    FloatSums sums;
    for (const std::size_t end = end_of_chain(i, count, kHalfChain); i < end; i += 2 * kLanes) {
      hwy::Prefetch(reinterpret_cast<const std::uint8_t*>(data + i) + kPrefetchBytes);
      for (std::size_t v = 0; v < 2 * kLanes / kShortWidth; ++v) {
        const auto bits = hn::LoadU(ds, reinterpret_cast<const std::int16_t*>(data + i + v * kShortWidth));
        largest_signed = hn::Max(largest_signed, bits);
        largest_unsigned = hn::Max(largest_unsigned, hn::BitCast(UnsignedShorts(), bits));
        smallest_unsigned = hn::Min(smallest_unsigned, hn::BitCast(UnsignedShorts(), bits));
        zeros = count_where(ds, zeros, has_none(ds, bits, magnitude));
      }
      for (std::size_t v = 0; v < kFloatVectors; ++v) {
        hn::Vec<Floats> a;
        hn::Vec<Floats> b;
        Unpack::unpack(data + i, v, &a, &b);
        sums.add(v, a, b);
      }
    }
    sums.flush_to(lanes);
    visit(visitor, i, kHalfChain, &visited);
  }
  lanes->zeros += total(ds, zeros);
  if (i > 0) add_extremes(largest_signed, largest_unsigned, smallest_unsigned, kind, lanes);
  for (std::size_t lane = 0; i < count; ++i, lane = (lane + 1) % kLanes) {
    add_one(widen_one(data[i], kind), lane, lanes);
  }
  visit(visitor, count, 1, &visited);
}

void fast_half(const std::uint16_t* data, std::size_t count, Half kind, Lanes<float>* lanes,
               const Visitor& visitor) {
  if (kind == Half::kBFloat16) {
    fast_half_of<UnpackBFloat16>(data, count, kind, lanes, visitor);
  } else {
    fast_half_of<UnpackFloat16>(data, count, kind, lanes, visitor);
  }
}

// Stores the masks of `predicate(i)`, each for `width` elements from i on, as packed bits; the tail goes
// through `single(i)`.
template <std::size_t width, typename D, typename Predicate, typename Single>
HWY_INLINE void pack_bits(D d, std::size_t count, std::uint8_t* HWY_RESTRICT bits, Predicate predicate,
                          Single single) {
  std::size_t i = 0;
  if constexpr (width >= 8) {
    for (; i + 4 * width <= count; i += 4 * width) {
      for (std::size_t part = 0; part < 4; ++part) {
        hn::StoreMaskBits(d, predicate(i + part * width), bits + (i + part * width) / 8);
      }
    }
    for (; i + width <= count; i += width) hn::StoreMaskBits(d, predicate(i), bits + i / 8);
  } else {
    for (; i + 8 <= count; i += 8) {
      unsigned byte = 0;
      for (std::size_t part = 0; part < 8; part += width) {
        std::uint8_t few[8];
        hn::StoreMaskBits(d, predicate(i + part), few);
        byte |= (few[0] & ((1U << width) - 1)) << part;
      }
      bits[i / 8] = static_cast<std::uint8_t>(byte);
    }
  }
  for (; i < count; ++i) {
    if (i % 8 == 0) bits[i / 8] = 0;
    bits[i / 8] |= static_cast<std::uint8_t>(static_cast<unsigned>(single(i)) << (i % 8));
  }
}

void signs_f32(const float* HWY_RESTRICT data, std::size_t count, std::uint8_t* HWY_RESTRICT bits) {
  const Floats df;
  pack_bits<kFloatWidth>(
      df, count, bits, [=](std::size_t i) { return hn::Gt(hn::LoadU(df, data + i), hn::Zero(df)); },
      [=](std::size_t i) { return data[i] > 0; });
}

void signs_f64(const double* HWY_RESTRICT data, std::size_t count, std::uint8_t* HWY_RESTRICT bits) {
  const Doubles dd;
  pack_bits<kDoubleWidth>(
      dd, count, bits, [=](std::size_t i) { return hn::Gt(hn::LoadU(dd, data + i), hn::Zero(dd)); },
      [=](std::size_t i) { return data[i] > 0; });
}

void signs_half(const std::uint16_t* HWY_RESTRICT data, std::size_t count, Half kind,
                std::uint8_t* HWY_RESTRICT bits) {
  // The values above zero are the integers 1 ... infinity; less one, all others are larger as unsigned
  // integers.
  const std::uint16_t infinity = kind == Half::kFloat16 ? 0x7C00 : 0x7F80;
  const UnsignedShorts du;
  const auto one = hn::Set(du, 1);
  const auto limit = hn::Set(du, infinity);
  pack_bits<kShortWidth>(
      du, count, bits, [=](std::size_t i) { return hn::Lt(hn::Sub(hn::LoadU(du, data + i), one), limit); },
      [=](std::size_t i) { return static_cast<std::uint16_t>(data[i] - 1) < infinity; });
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

void widen_half(const std::uint16_t* HWY_RESTRICT data, std::size_t count, Half kind,
                float* HWY_RESTRICT out) {
  const Floats df;
  const hn::RebindToUnsigned<Floats> du;
  const hn::Rebind<std::uint16_t, Floats> d16;
  std::size_t i = 0;
  if (kind == Half::kBFloat16) {
    for (; i + kFloatWidth <= count; i += kFloatWidth) {
      const auto words = hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, data + i)));
      hn::StoreU(hn::BitCast(df, words), df, out + i);
    }
    for (; i < count; ++i) out[i] = widen_one(data[i], kind);
  } else {
    for (; i + kFloatWidth <= count; i += kFloatWidth) {
      hn::StoreU(promote_f16(df, hn::LoadU(d16, data + i)), df, out + i);
    }
    for (; i < count; ++i) out[i] = widen_one(data[i], kind);
  }
}

constexpr Kernels kTable{fast_f32,  fast_half, moments_f32, moments_f64, signs_f32,  signs_f64,  signs_half,
                         above_f32, above_f64, above_half,  half_limits, count_bits, widen_half, ""};

const Kernels* table() { return &kTable; }

}  // namespace

const Kernels* kernels_here() { return table(); }

}  // namespace msprobe::stats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace msprobe::stats {

HWY_EXPORT(kernels_here);

namespace {

// The instruction sets that are compiled in and that this processor has, best in the lowest bit. The
// environment variable MSPROBE_INSTRUCTION_SET ("AVX2") leaves only the one of that name, to look for a fault
// in one of them.
std::int64_t usable_targets() {
  const std::int64_t all = hwy::SupportedTargets() & HWY_TARGETS;
  const char* wanted = std::getenv("MSPROBE_INSTRUCTION_SET");
  if (wanted == nullptr) return all;
  for (std::int64_t rest = all; rest != 0; rest &= rest - 1) {
    const std::int64_t target = rest & -rest;
    if (std::strcmp(hwy::TargetName(target), wanted) == 0) return target;
  }
  log(LogLevel::kWarning, std::string("MSPROBE_INSTRUCTION_SET: this processor or build has no ") + wanted);
  return all;
}

}  // namespace

const Kernels& kernels() {
  static const Kernels chosen = [] {
    const std::int64_t targets = usable_targets();
    hwy::GetChosenTarget().Update(targets);
    Kernels table = *HWY_DYNAMIC_DISPATCH(kernels_here)();
    table.instruction_set = hwy::TargetName(targets & -targets);
    return table;
  }();
  return chosen;
}

}  // namespace msprobe::stats
#endif

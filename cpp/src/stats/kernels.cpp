// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// Highway compiles this file once per instruction set. See docs/adr/0004.

#include "stats/kernels.h"

#include <cstring>

// Scalable vectors have no fixed size, which the arrays of vectors below need; such processors use NEON or
// plain code.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stats/kernels.cpp"
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

// Two times kLanes 16-bit floats become two sets of float vectors. Which element goes to which set is up to
// the kind: sums and extremes do not care, as long as it is the same for every instruction set.
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
    const hn::Rebind<hwy::float16_t, Floats> dh;
    const hn::Rebind<std::uint16_t, Floats> d16;
    *a = hn::PromoteTo(df, hn::BitCast(dh, hn::LoadU(d16, data + v * kFloatWidth)));
    *b = hn::PromoteTo(df, hn::BitCast(dh, hn::LoadU(d16, data + kLanes + v * kFloatWidth)));
  }
};

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

template <typename Unpack>
HWY_INLINE void moments_half(const std::uint16_t* HWY_RESTRICT data, std::size_t count,
                             float (*widen)(std::uint16_t), Lanes<float>* HWY_RESTRICT lanes) {
  const Floats df;
  const hn::CappedTag<std::uint16_t, 2 * kLanes> d16;
  constexpr std::size_t width16 = hn::MaxLanes(d16);
  const auto magnitude = hn::Set(d16, 0x7FFF);
  const auto zero16 = hn::Zero(d16);
  hn::Vec<Floats> min[kFloatVectors];
  hn::Vec<Floats> max[kFloatVectors];
  for (std::size_t v = 0; v < kFloatVectors; ++v) {
    min[v] = hn::LoadU(df, lanes->min + v * kFloatWidth);
    max[v] = hn::LoadU(df, lanes->max + v * kFloatWidth);
  }
  std::size_t zeros = 0;
  std::size_t i = 0;
  while (i + 2 * kLanes <= count) {
    hn::Vec<Floats> sum_a[kFloatVectors];
    hn::Vec<Floats> sum_b[kFloatVectors];
    hn::Vec<Floats> squares_a[kFloatVectors];
    hn::Vec<Floats> squares_b[kFloatVectors];
    for (std::size_t v = 0; v < kFloatVectors; ++v) {
      sum_a[v] = sum_b[v] = squares_a[v] = squares_b[v] = hn::Zero(df);
    }
    const std::size_t end = count - i < kFloatChain ? count - (2 * kLanes - 1) : i + kFloatChain;
    for (; i < end; i += 2 * kLanes) {
      for (std::size_t v = 0; v < 2 * kLanes / width16; ++v) {
        const auto bits = hn::LoadU(d16, data + i + v * width16);
        zeros += hn::CountTrue(d16, hn::Eq(hn::And(bits, magnitude), zero16));
      }
      for (std::size_t v = 0; v < kFloatVectors; ++v) {
        hn::Vec<Floats> a;
        hn::Vec<Floats> b;
        Unpack::unpack(data + i, v, &a, &b);
        min[v] = hn::Min(min[v], hn::Min(a, b));
        max[v] = hn::Max(max[v], hn::Max(a, b));
        sum_a[v] = hn::Add(sum_a[v], a);
        sum_b[v] = hn::Add(sum_b[v], b);
        squares_a[v] = hn::MulAdd(a, a, squares_a[v]);
        squares_b[v] = hn::MulAdd(b, b, squares_b[v]);
      }
    }
    flush(sum_a, lanes->sum);
    flush(sum_b, lanes->sum);
    flush(squares_a, lanes->squares);
    flush(squares_b, lanes->squares);
  }
  for (std::size_t v = 0; v < kFloatVectors; ++v) {
    hn::StoreU(min[v], df, lanes->min + v * kFloatWidth);
    hn::StoreU(max[v], df, lanes->max + v * kFloatWidth);
  }
  lanes->zeros += static_cast<std::int64_t>(zeros);
  for (std::size_t lane = 0; i < count; ++i, lane = (lane + 1) % kLanes) add_one(widen(data[i]), lane, lanes);
}

float widen_bf16(std::uint16_t bits) {
  const std::uint32_t word = static_cast<std::uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

float widen_f16(std::uint16_t bits) {
  const hn::CappedTag<float, 1> df;
  const hn::Rebind<hwy::float16_t, decltype(df)> dh;
  const hn::Rebind<std::uint16_t, decltype(df)> d16;
  return hn::GetLane(hn::PromoteTo(df, hn::BitCast(dh, hn::Set(d16, bits))));
}

void moments_f16(const std::uint16_t* data, std::size_t count, Lanes<float>* lanes) {
  moments_half<UnpackFloat16>(data, count, widen_f16, lanes);
}

void moments_bf16(const std::uint16_t* data, std::size_t count, Lanes<float>* lanes) {
  moments_half<UnpackBFloat16>(data, count, widen_bf16, lanes);
}

// Stores the masks of `predicate(i)`, each for `width` elements from i on, as packed bits; the tail goes
// through `single(i)`.
template <std::size_t width, typename D, typename Predicate, typename Single>
HWY_INLINE void pack_bits(D d, std::size_t count, std::uint8_t* HWY_RESTRICT bits, Predicate predicate,
                          Single single) {
  std::size_t i = 0;
  if constexpr (width >= 8) {
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
  // As signed integers the values above zero are 1 ... infinity, and NaN lies above infinity.
  const std::int16_t infinity = kind == Half::kFloat16 ? 0x7C00 : 0x7F80;
  const hn::CappedTag<std::int16_t, 2 * kLanes> d16;
  const auto limit = hn::Set(d16, infinity);
  const auto* values = reinterpret_cast<const std::int16_t*>(data);
  pack_bits<hn::MaxLanes(d16)>(
      d16, count, bits,
      [=](std::size_t i) {
        const auto x = hn::LoadU(d16, values + i);
        return hn::AndNot(hn::Gt(x, limit), hn::Gt(x, hn::Zero(d16)));
      },
      [=](std::size_t i) { return values[i] > 0 && values[i] <= infinity; });
}

std::int64_t above_f32(const float* HWY_RESTRICT data, std::size_t count, float bound) {
  const Floats df;
  const auto limit = hn::Set(df, bound);
  std::size_t above = 0;
  std::size_t i = 0;
  for (; i + kFloatWidth <= count; i += kFloatWidth) {
    above += hn::CountTrue(df, hn::Gt(hn::LoadU(df, data + i), limit));
  }
  for (; i < count; ++i) above += data[i] > bound;
  return static_cast<std::int64_t>(above);
}

std::int64_t above_f64(const double* HWY_RESTRICT data, std::size_t count, double bound) {
  const Doubles dd;
  const auto limit = hn::Set(dd, bound);
  std::size_t above = 0;
  std::size_t i = 0;
  for (; i + kDoubleWidth <= count; i += kDoubleWidth) {
    above += hn::CountTrue(dd, hn::Gt(hn::LoadU(dd, data + i), limit));
  }
  for (; i < count; ++i) above += data[i] > bound;
  return static_cast<std::int64_t>(above);
}

void widen_half(const std::uint16_t* HWY_RESTRICT data, std::size_t count, Half kind,
                float* HWY_RESTRICT out) {
  const Floats df;
  const hn::RebindToUnsigned<Floats> du;
  const hn::Rebind<hwy::float16_t, Floats> dh;
  const hn::Rebind<std::uint16_t, Floats> d16;
  std::size_t i = 0;
  if (kind == Half::kBFloat16) {
    for (; i + kFloatWidth <= count; i += kFloatWidth) {
      const auto words = hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, data + i)));
      hn::StoreU(hn::BitCast(df, words), df, out + i);
    }
    for (; i < count; ++i) out[i] = widen_bf16(data[i]);
  } else {
    for (; i + kFloatWidth <= count; i += kFloatWidth) {
      hn::StoreU(hn::PromoteTo(df, hn::BitCast(dh, hn::LoadU(d16, data + i))), df, out + i);
    }
    for (; i < count; ++i) out[i] = widen_f16(data[i]);
  }
}

constexpr Kernels kTable{moments_f32, moments_f64, moments_f16, moments_bf16, signs_f32, signs_f64,
                         signs_half,  above_f32,   above_f64,   widen_half,   ""};

const Kernels* table() { return &kTable; }

}  // namespace

const Kernels* kernels_here() { return table(); }

}  // namespace msprobe::stats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace msprobe::stats {

HWY_EXPORT(kernels_here);

const Kernels& kernels() {
  static const Kernels chosen = [] {
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    Kernels table = *HWY_DYNAMIC_DISPATCH(kernels_here)();
    const std::int64_t best = hwy::SupportedTargets() & HWY_TARGETS;
    table.instruction_set = hwy::TargetName(best & -best);
    return table;
  }();
  return chosen;
}

}  // namespace msprobe::stats
#endif

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// Digest and sketch of a piece of a group (base/position.h), for the instruction set that Highway compiles at
// the moment. For floats of 32 bits and less one loop takes them along with the basic statistics: each waits
// for itself, so that both take hardly longer than the longer one.

#if defined(MSPROBE_STATS_SKETCH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MSPROBE_STATS_SKETCH_INL_H
#undef MSPROBE_STATS_SKETCH_INL_H
#else
#define MSPROBE_STATS_SKETCH_INL_H
#endif

#include <algorithm>
#include <cstring>

#include "base/position.h"
#include "stats/chains-inl.h"
#include "stats/sketch_tables.h"

HWY_BEFORE_NAMESPACE();
namespace msprobe::stats::HWY_NAMESPACE {
namespace {

using Words = hn::RebindToUnsigned<Floats>;
#if HWY_TARGET != HWY_SCALAR
using LongWords = hn::Repartition<std::uint64_t, Words>;
using Bytes = hn::Repartition<std::uint8_t, Words>;
#endif
constexpr std::size_t kRun = position::kRun;
static_assert(kRun % (4 * kLanes) == 0 && kLanes == 2 * Sketch::kSums);

// A vector of memory that holds something else.
template <typename D>
HWY_INLINE hn::Vec<D> load_bytes(D d, const std::uint8_t* bytes) {
#if HWY_TARGET == HWY_SCALAR
  hn::TFromD<D> value;
  std::memcpy(&value, bytes, sizeof(value));
  return hn::Set(d, value);
#else
  return hn::BitCast(d, hn::LoadU(hn::Repartition<std::uint8_t, D>(), bytes));
#endif
}

// The sign of a run: all bits of `mask`, or none.
HWY_INLINE hn::Vec<Words> run_signs(std::uint64_t factor, std::size_t place, std::uint32_t mask) {
  const position::Word negative = position::run_sign(factor, static_cast<position::Word>(place / kRun));
  return hn::Set(Words(), negative != 0 ? mask : 0);
}

// Adds lane i to sum i modulo kSums.
HWY_INLINE void fold(const double* HWY_RESTRICT lanes, double* HWY_RESTRICT sums) {
  for (std::size_t k = 0; k < Sketch::kSums; ++k) sums[k] += lanes[k] + lanes[k + Sketch::kSums];
}

// The digest of words as they come by, whose parts are of `kSize` bytes.
template <std::size_t kSize>
class Digest {
 public:
  HWY_INLINE Digest() {
#if HWY_TARGET != HWY_SCALAR
    even_ = odd_ = hn::Zero(LongWords());
    HWY_ALIGN std::uint8_t from[hn::MaxLanes(Bytes())];
    for (std::size_t i = 0; i < hn::MaxLanes(Bytes()); ++i) {
      from[i] = static_cast<std::uint8_t>((i % 16) ^ (kSize - 1));
    }
    from_ = hn::Load(Bytes(), from);
#endif
  }

  // kFloatWidth words, of which the first is `word` of its group.
  HWY_INLINE void add(const std::uint8_t* words, std::size_t word) {
#if HWY_TARGET == HWY_SCALAR
    const std::uint32_t bits = hn::GetLane(load_bytes(Words(), words));
    scalar_ += std::uint64_t{kKeyOfWord[word]} * position::reversed(bits, kSize);
#else
    const Words du;
    const auto upper = [](auto x) {
      return hn::BitCast(Words(), hn::ShiftRight<32>(hn::BitCast(LongWords(), x)));
    };
    auto bits = hn::LoadU(Bytes(), words);
    if constexpr (kSize > 1) bits = hn::TableLookupBytes(bits, from_);
    const auto reversed = hn::BitCast(du, bits);
    even_ = hn::Add(even_, hn::MulEven(reversed, hn::Load(du, kKeyOfWord.data() + word)));
    odd_ = hn::Add(odd_, hn::MulEven(upper(reversed), hn::Load(du, kKeyOfNext.data() + word)));
#endif
  }

  HWY_INLINE std::uint64_t sum() const {
#if HWY_TARGET == HWY_SCALAR
    return scalar_;
#else
    HWY_ALIGN std::uint64_t lanes[hn::MaxLanes(LongWords())];
    hn::Store(hn::Add(even_, odd_), LongWords(), lanes);
    std::uint64_t sum = 0;
    for (const std::uint64_t lane : lanes) sum += lane;
    return sum;
#endif
  }

 private:
#if HWY_TARGET == HWY_SCALAR
  std::uint64_t scalar_ = 0;
#else
  hn::Vec<LongWords> even_;
  hn::Vec<LongWords> odd_;
  hn::Vec<Bytes> from_;
#endif
};

// Elements in their order: lane i of both sets belongs to places that are i modulo kLanes.
struct InOrder {
  static constexpr std::uint32_t kSignBits = 0x80000000U;

  static HWY_INLINE hn::Vec<Floats> turned(hn::Vec<Floats> x, std::size_t place, hn::Vec<Words> turn) {
    const Words du;
    const auto signs = hn::Load(du, kSigns.data() + place);
    return hn::BitCast(Floats(), hn::Xor3(hn::BitCast(du, x), signs, turn));
  }

  static HWY_INLINE void fold(const double (&lanes)[2][kLanes], double* sums) {
    for (const auto& set : lanes) HWY_NAMESPACE::fold(set, sums);
  }
};

struct SketchFloat32 : InOrder {
  static constexpr std::size_t kSize = 4;

  static HWY_INLINE void take(const std::uint8_t* data, std::size_t place, std::size_t v, hn::Vec<Words> turn,
                              hn::Vec<Floats>& a, hn::Vec<Floats>& b) {
    const Floats df;
    const std::size_t at = v * kFloatWidth;
    const auto x = load_bytes(df, data + 4 * at);
    const auto y = load_bytes(df, data + 4 * (at + kLanes));
    a = hn::Add(a, turned(x, place + at, turn));
    b = hn::Add(b, turned(y, place + at + kLanes, turn));
  }
};

struct SketchFloat16 : InOrder {
  static constexpr std::size_t kSize = 2;

  static HWY_INLINE hn::Vec<Floats> load(const std::uint8_t* data) {
    return promote_f16(Floats(), load_bytes(hn::Rebind<std::uint16_t, Floats>(), data));
  }

  static HWY_INLINE void take(const std::uint8_t* data, std::size_t place, std::size_t v, hn::Vec<Words> turn,
                              hn::Vec<Floats>& a, hn::Vec<Floats>& b) {
    const std::size_t at = v * kFloatWidth;
    a = hn::Add(a, turned(load(data + 2 * at), place + at, turn));
    b = hn::Add(b, turned(load(data + 2 * (at + kLanes)), place + at + kLanes, turn));
  }
};

// A pair in a word: the element of the even place in its lower half.
struct SketchBFloat16 {
  static constexpr std::size_t kSize = 2;
  static constexpr std::uint32_t kSignBits = 0x80008000U;

  static HWY_INLINE void take(const std::uint8_t* data, std::size_t place, std::size_t v, hn::Vec<Words> turn,
                              hn::Vec<Floats>& even, hn::Vec<Floats>& odd) {
    const Floats df;
    const Words du;
    const std::size_t at = 2 * v * kFloatWidth;
    const auto signs = hn::Load(du, kPairSigns.data() + (place + at) / 2);
    const auto pair = hn::Xor3(load_bytes(du, data + 2 * at), signs, turn);
    even = hn::Add(even, hn::BitCast(df, hn::ShiftLeft<16>(pair)));
    odd = hn::Add(odd, hn::BitCast(df, hn::And(pair, hn::Set(du, 0xFFFF0000U))));
  }

  static HWY_INLINE void fold(const double (&lanes)[2][kLanes], double* sums) {
    for (std::size_t k = 0; k < kLanes; ++k) {
      for (std::size_t odd = 0; odd < 2; ++odd) sums[(2 * k + odd) % Sketch::kSums] += lanes[odd][k];
    }
  }
};

// The kernel for one dtype: Kind has what that of the checksums has (stats/checksum_chains-inl.h), and
// Sketched, which take()s 2 * kLanes parts, of which the first is at `place` of its group, into vector v of
// two sets of sums, and says with fold() which sum each is. At most 32 additions go into a float.
template <typename Kind>
void fast_with_sketch(const void* data, std::size_t count, std::size_t place, std::uint64_t factor,
                      GroupSums* HWY_RESTRICT groups, Lanes<float>* HWY_RESTRICT lanes) {
  using Sketched = typename Kind::Sketched;
  constexpr std::size_t size = Sketched::kSize;
  static_assert(Kind::kChain % kRun == 0 && sizeof(typename Kind::Element) == size);
  static_assert(position::kGroup % Kind::kChain == 0);
  const auto* HWY_RESTRICT bytes = static_cast<const std::uint8_t*>(data);
  const auto* HWY_RESTRICT elements = static_cast<const typename Kind::Element*>(data);
  typename Kind::State state = Kind::start(*lanes);
  for (std::size_t i = 0; i < count; place = 0, factor *= position::kStep, ++groups) {
    const std::size_t end_of_group = std::min(count, i + position::kGroup - place);
    Digest<size> digest;
    hn::Vec<Floats> a[kFloatVectors];
    hn::Vec<Floats> b[kFloatVectors];
    for (std::size_t v = 0; v < kFloatVectors; ++v) a[v] = b[v] = hn::Zero(Floats());
    for (std::size_t at = place; i < end_of_group;) {
      typename Kind::State s = state;  // a copy, or the compiler keeps it in memory
      FloatSums chain;
      for (const std::size_t end = std::min(end_of_group, i + Kind::kChain); i < end; i += kRun, at += kRun) {
        const auto turn = run_signs(factor, at, Sketched::kSignBits);
#pragma GCC unroll 4
        for (std::size_t k = 0; k < kRun; k += 2 * kLanes) {
          Kind::add_step(elements + i + k, s, chain);
          for (std::size_t v = 0; v < kFloatVectors; ++v) {
            Sketched::take(bytes + (i + k) * size, at + k, v, turn, a[v], b[v]);
          }
          for (std::size_t word = 0; word < 2 * kLanes * size / 4; word += kFloatWidth) {
            digest.add(bytes + (i + k) * size + 4 * word, (at + k) * size / 4 + word);
          }
        }
      }
      chain.flush_to(lanes);
      state = s;
    }
    HWY_ALIGN double folded[2][kLanes] = {};
    flush(a, folded[0]);
    flush(b, folded[1]);
    groups->sums.fill(0);
    Sketched::fold(folded, groups->sums.data());
    groups->digest = digest.sum();
  }
  Kind::store(state, *lanes);
}

}  // namespace
}  // namespace msprobe::stats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// Highway compiles this file once per instruction set. See docs/adr/0004.

#include "base/content_hash.h"
#include "base/kernel_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "base/content_hash_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>

#include "msprobe/content_hash.h"

HWY_BEFORE_NAMESPACE();
namespace msprobe::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR  // has no odd lanes

using Words = hn::CappedTag<std::uint32_t, 16>;
using Sums = hn::Repartition<std::uint64_t, Words>;

#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86

// The next words, each in a lane of 64 bits.
struct Taken {
  hn::Vec<Sums> first;
  hn::Vec<Sums> second;

  explicit HWY_INLINE Taken(const std::uint8_t* data) {
    const auto* const halves = reinterpret_cast<const __m256i*>(data);
    first.raw = _mm512_cvtepu32_epi64(_mm256_loadu_si256(halves));
    second.raw = _mm512_cvtepu32_epi64(_mm256_loadu_si256(halves + 1));
  }
};

// Multiplies 64 bits in one instruction.
struct Half {
  hn::Vec<Sums> first;
  hn::Vec<Sums> second;

  HWY_INLINE Half() : first(hn::Zero(Sums())), second(hn::Zero(Sums())) {}

  HWY_INLINE void add(const Taken& taken, const HashKeys& keys, std::size_t at) {
    const Sums ds;
    const auto times = [](hn::Vec<Sums> words, hn::Vec<Sums> factors) {
      return hn::Vec<Sums>{_mm512_mullo_epi64(words.raw, factors.raw)};
    };
    first = hn::Add(first, times(taken.first, hn::LoadU(ds, keys.whole + at)));
    second = hn::Add(second, times(taken.second, hn::LoadU(ds, keys.whole + at + hn::MaxLanes(ds))));
  }

  HWY_INLINE std::uint64_t sum() const {
    // Not _mm512_reduce_add_epi64(), whose integers are signed and must not overflow.
    alignas(64) std::uint64_t lanes[hn::MaxLanes(Sums())];
    hn::Store(hn::Add(first, second), Sums(), lanes);
    std::uint64_t sum = 0;
    for (const std::uint64_t lane : lanes) sum += lane;
    return sum;
  }
};

#else

// The words in odd places moved to the even ones.
HWY_INLINE hn::Vec<Words> to_even(hn::Vec<Words> words) {
  return hn::BitCast(Words(), hn::ShiftRight<32>(hn::BitCast(Sums(), words)));
}

// The next words, and those in odd places moved to the even ones.
struct Taken {
  hn::Vec<Words> words;
  hn::Vec<Words> odd;

  explicit HWY_INLINE Taken(const std::uint8_t* data)
      : words(hn::BitCast(Words(), hn::LoadU(hn::Repartition<std::uint8_t, Words>(), data))),
        odd(to_even(words)) {}
};

// A product of 32 and 64 bits is that with the lower half of the key, and 2^32 times that with the upper
// half, of which 32 bits are left.
struct Half {
  hn::Vec<Sums> even;
  hn::Vec<Sums> odd;
  hn::Vec<Words> upper;

  HWY_INLINE Half() : even(hn::Zero(Sums())), odd(hn::Zero(Sums())), upper(hn::Zero(Words())) {}

  HWY_INLINE void add(const Taken& taken, const HashKeys& keys, std::size_t at) {
    const Words dw;
    const auto words = taken.words;
    const auto low = hn::LoadU(dw, keys.low + at);
    even = hn::Add(even, hn::MulEven(words, low));
    odd = hn::Add(odd, hn::MulEven(taken.odd, to_even(low)));
    upper = hn::Add(upper, hn::Mul(words, hn::LoadU(dw, keys.high + at)));
  }

  HWY_INLINE std::uint64_t sum() const {
    alignas(64) std::uint64_t lower[hn::MaxLanes(Sums())];
    alignas(64) std::uint32_t higher[hn::MaxLanes(Words())];
    hn::Store(hn::Add(even, odd), Sums(), lower);
    hn::Store(upper, Words(), higher);
    std::uint64_t sum = 0;
    for (const std::uint64_t lane : lower) sum += lane;
    for (const std::uint32_t lane : higher) sum += std::uint64_t{lane} << 32;
    return sum;
  }
};

#endif

#endif

ContentHash hash_words_here(const std::uint8_t* data, std::size_t count, std::size_t first,
                            const HashKeys (&keys)[2]) {
  ContentHash hash;
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr std::size_t kWidth = hn::MaxLanes(Words());
  Half low;
  Half high;
  for (; i + kWidth <= count; i += kWidth) {
    const Taken taken(data + 4 * i);
    low.add(taken, keys[0], first + i);
    high.add(taken, keys[1], first + i);
  }
  hash = {low.sum(), high.sum()};
#endif
  for (; i < count; ++i) {
    std::uint32_t word = 0;
    std::memcpy(&word, data + 4 * i, sizeof(word));
    const auto key = [&](const HashKeys& half) {
      return std::uint64_t{half.high[first + i]} << 32 | half.low[first + i];
    };
    hash += {word * key(keys[0]), word * key(keys[1])};
  }
  return hash;
}

}  // namespace

HashWords find_hash_words_here() { return hash_words_here; }

}  // namespace msprobe::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace msprobe {

HWY_EXPORT(find_hash_words_here);

HashWords hash_words() {
  static const HashWords chosen = [] {
    use_best_instruction_set();
    return HWY_DYNAMIC_DISPATCH(find_hash_words_here)();
  }();
  return chosen;
}

}  // namespace msprobe
#endif

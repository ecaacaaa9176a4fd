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

HWY_BEFORE_NAMESPACE();
namespace msprobe::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR  // has no odd lanes

using Words = hn::CappedTag<std::uint32_t, 16>;
using Sums = hn::Repartition<std::uint64_t, Words>;

// A product of 32 and 64 bits is that with the lower half of the key, and 2^32 times that with the upper
// half, of which 32 bits are left.
struct Half {
  hn::Vec<Sums> even;
  hn::Vec<Sums> odd;
  hn::Vec<Words> upper;

  HWY_INLINE Half() : even(hn::Zero(Sums())), odd(hn::Zero(Sums())), upper(hn::Zero(Words())) {}

  HWY_INLINE void add(hn::Vec<Words> words, hn::Vec<Words> odd_words, const HashKeys& keys, std::size_t at) {
    const Words dw;
    const auto low = hn::LoadU(dw, keys.low + at);
    even = hn::Add(even, hn::MulEven(words, low));
    odd = hn::Add(odd, hn::MulEven(odd_words, to_even(low)));
    upper = hn::Add(upper, hn::Mul(words, hn::LoadU(dw, keys.high + at)));
  }

  // The words in odd places moved to the even ones.
  static HWY_INLINE hn::Vec<Words> to_even(hn::Vec<Words> words) {
    return hn::BitCast(Words(), hn::ShiftRight<32>(hn::BitCast(Sums(), words)));
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

ContentHash hash_words_here(const std::uint8_t* data, std::size_t count, std::size_t first,
                            const HashKeys (&keys)[2]) {
  ContentHash hash;
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr std::size_t kWidth = hn::MaxLanes(Words());
  const hn::Repartition<std::uint8_t, Words> bytes;
  Half low;
  Half high;
  for (; i + kWidth <= count; i += kWidth) {
    const auto words = hn::BitCast(Words(), hn::LoadU(bytes, data + 4 * i));
    const auto odd = Half::to_even(words);
    low.add(words, odd, keys[0], first + i);
    high.add(words, odd, keys[1], first + i);
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

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "base/content_hash.h"

#include <algorithm>
#include <array>

#include "msprobe/content_hash.h"

namespace msprobe {
namespace {

constexpr std::uint64_t kWordBytes = 4;
constexpr std::uint64_t kBlockBytes = kWordBytes * kHashBlock;

// Number `i` of the sequence that splitmix64 gives from `seed` (Steele, Lea, Flood: Fast splittable
// pseudorandom number generators, 2014).
constexpr std::uint64_t splitmix64(std::uint64_t seed, std::uint64_t i) {
  std::uint64_t z = seed + (i + 1) * 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

// Decimals of pi, e, and the square roots of 2 and 3: numbers without a purpose of their own.
constexpr std::array<std::uint64_t, 2> kKeySeeds{1415926535897932384U, 7182818284590452353U};
constexpr std::array<std::uint64_t, 2> kScaleSeeds{4142135623730950488U, 7320508075688772935U};

struct Keys {
  HashKeys halves[2];

  Keys() {
    for (std::size_t half = 0; half < 2; ++half) {
      for (std::size_t i = 0; i < kHashBlock; ++i) {
        const std::uint64_t key = splitmix64(kKeySeeds[half], i) | 1;
        halves[half].whole[i] = key;
        halves[half].low[i] = static_cast<std::uint32_t>(key);
        halves[half].high[i] = static_cast<std::uint32_t>(key >> 32);
      }
    }
  }
};

const Keys& keys() {
  static const Keys made;
  return made;
}

ContentHash scaled(const ContentHash& sum, std::uint64_t block) {
  return {sum.low * (splitmix64(kScaleSeeds[0], block) | 1),
          sum.high * (splitmix64(kScaleSeeds[1], block) | 1)};
}

// Bytes that do not fill a word: one word with zeros around them.
ContentHash hash_bytes(const std::uint8_t* data, std::size_t count, std::uint64_t offset) {
  std::array<std::uint8_t, kWordBytes> word{};
  std::copy_n(data, count, word.begin() + offset % kWordBytes);
  const ContentHash sum = hash_words()(word.data(), 1, offset % kBlockBytes / kWordBytes, keys().halves);
  return scaled(sum, offset / kBlockBytes);
}

}  // namespace

ContentHash hash_part(const void* data, std::size_t bytes, std::uint64_t offset) {
  const auto* at = static_cast<const std::uint8_t*>(data);
  ContentHash hash;
  const auto advance = [&](std::size_t count) {
    at += count;
    offset += count;
    bytes -= count;
  };
  if (offset % kWordBytes != 0 && bytes > 0) {
    const std::size_t count = std::min<std::size_t>(bytes, kWordBytes - offset % kWordBytes);
    hash += hash_bytes(at, count, offset);
    advance(count);
  }
  const HashWords sum = hash_words();
  while (bytes >= kWordBytes) {
    const std::uint64_t first = offset % kBlockBytes / kWordBytes;
    const std::size_t words = std::min<std::size_t>(bytes / kWordBytes, kHashBlock - first);
    hash += scaled(sum(at, words, first, keys().halves), offset / kBlockBytes);
    advance(words * kWordBytes);
  }
  if (bytes > 0) hash += hash_bytes(at, bytes, offset);
  return hash;
}

std::string ContentHash::text() const {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string result;
  for (const std::uint64_t half : {high, low}) {
    for (int shift = 60; shift >= 0; shift -= 4) result += kDigits[half >> shift & 15];
  }
  return result;
}

}  // namespace msprobe

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "msprobe/export.h"

namespace msprobe {

/// A hash of 128 bits of a sequence of bytes that can be added up: the hash of the whole is the sum of the
/// hashes of its parts, each taken with its place in the whole, in any order. So a tensor that is spread over
/// files has the hash of the whole one.
///
/// Both halves are sums modulo 2^64 over the 32-bit words of the sequence (little endian, the last filled up
/// with zeros): word[i] * key[i mod 1024] * scale[i / 1024], with odd pseudo-random keys and scales of 64
/// bits, different ones for each half. They come from splitmix64: docs/formats/checkpoint.md. A difference
/// that does not know the keys goes unseen with a probability near 2^-64 or less; it is no protection against
/// somebody who wants two contents of the same hash.
struct ContentHash {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  ContentHash& operator+=(const ContentHash& other) noexcept {
    low += other.low;
    high += other.high;
    return *this;
  }
  bool operator==(const ContentHash&) const = default;

  /// 32 hexadecimal digits.
  MSPROBE_API std::string text() const;
};

/// The part of the hash that `bytes` bytes at `data` bring, when the first one is byte `offset` of the whole.
/// Thread-safe. Any alignment.
MSPROBE_API ContentHash hash_part(const void* data, std::size_t bytes, std::uint64_t offset);

}  // namespace msprobe

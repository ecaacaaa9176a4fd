// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "msprobe/content_hash.h"

namespace msprobe {

/// Words of a block, which share a scale.
inline constexpr std::size_t kHashBlock = 1024;

/// The keys of one half of the hash, for loops over many words at once.
struct HashKeys {
  alignas(64) std::uint32_t low[kHashBlock];   // the lower 32 bits of each key
  alignas(64) std::uint32_t high[kHashBlock];  // the upper ones
  alignas(64) std::uint64_t whole[kHashBlock];
};

/// Sum of word[i] * key[first + i] modulo 2^64 for both halves, over `count` words at `data`, which has any
/// alignment; first + count is at most kHashBlock.
using HashWords = ContentHash (*)(const std::uint8_t* data, std::size_t count, std::size_t first,
                                  const HashKeys (&keys)[2]);

/// The best one for this processor; found once.
HashWords hash_words();

}  // namespace msprobe

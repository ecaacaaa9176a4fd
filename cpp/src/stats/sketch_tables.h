// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// base/position.h as tables, in the order in which vectors of elements want it.

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/position.h"

namespace msprobe::stats {

template <std::size_t n, typename Entry>
constexpr std::array<std::uint32_t, n> table_of(Entry entry) {
  std::array<std::uint32_t, n> table{};
  for (std::size_t i = 0; i < n; ++i) table[i] = entry(static_cast<position::Word>(i));
  return table;
}

alignas(64) inline constexpr auto kKeyOfWord = table_of<position::kKeys>([](position::Word word) {
  return position::key(word);
});

/// In the place of an even word the key of the next one.
alignas(64) inline constexpr auto kKeyOfNext = table_of<position::kKeys>([](position::Word word) {
  return position::key(word + 1 - word % 2);
});

/// The sign bits of the parts of a group, as they are turned in float32 values, and in pairs of 16-bit
/// floats.
alignas(64) inline constexpr auto kSigns = table_of<position::kGroup>([](position::Word place) {
  return position::own_sign(place) << 31;
});
alignas(64) inline constexpr auto kPairSigns = table_of<position::kGroup / 2>([](position::Word pair) {
  return position::own_sign(2 * pair) << 15 | position::own_sign(2 * pair + 1) << 31;
});

}  // namespace msprobe::stats

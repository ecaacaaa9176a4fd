// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace msprobe::trace {

inline constexpr std::uint32_t kFreeSlot = 0xffffffff;

/// Slots of a hash table for `count` entries of a list: 8 to 16 bytes an entry. Fill them with find_slot().
inline std::vector<std::uint32_t> make_slots(std::size_t count) {
  std::size_t size = 2;
  while (size < 2 * count) size *= 2;
  return std::vector<std::uint32_t>(size, kFreeSlot);
}

/// The slot that holds the index of the entry called `name`, or the free slot where it belongs. `name_of(i)`:
/// the name of entry i.
template <typename Slots, typename NameOf>
auto& find_slot(Slots& slots, std::string_view name, const NameOf& name_of) {
  const std::size_t mask = slots.size() - 1;
  std::size_t i = std::hash<std::string_view>()(name) & mask;
  while (slots[i] != kFreeSlot && name_of(slots[i]) != name) i = (i + 1) & mask;
  return slots[i];
}

}  // namespace msprobe::trace

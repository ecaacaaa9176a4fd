// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>

#include "msprobe/trace_reader.h"

namespace msprobe::trace {

/// Texts that occur often, each kept once in a memory that others use too.
class InternedTexts {
 public:
  /// `memory`: of a Trace; it is appended to. `most_bytes`: of all texts together.
  InternedTexts(std::string& memory, std::size_t most_bytes) : memory_(memory), most_bytes_(most_bytes) {}

  /// Empty when there is no more room.
  Text keep(std::string_view text) {
    if (text.empty()) return {};
    const auto byte = [text](std::size_t i) { return std::size_t{static_cast<unsigned char>(text[i])}; };
    const std::size_t looks = text.size() * 7 + byte(text.size() / 2) * 5 + byte(text.size() - 1);
    Text& recent = recent_[looks % recent_.size()];
    if (std::string_view(memory_).substr(recent.offset, recent.length) != text) recent = find(text);
    return recent;
  }
  /// There was no room for a text.
  bool is_full() const noexcept { return bytes_ > most_bytes_; }
  std::size_t most_bytes() const noexcept { return most_bytes_; }

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  // One that was not asked for lately.
  Text find(std::string_view text);

  std::string& memory_;
  const std::size_t most_bytes_;
  std::size_t bytes_ = 0;
  std::unordered_map<std::string, Text, Hash, std::equal_to<>> texts_;
  std::array<Text, 64> recent_;  // each in a place that its looks give: few are asked for in turns
};

}  // namespace msprobe::trace

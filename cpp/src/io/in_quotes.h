// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace msprobe::io {

/// Text from a file in quotes for a message: at most 60 characters of it, and nothing but printable ASCII.
inline std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMost = 60;
  std::string result = "\"";
  for (const char c : text.substr(0, kMost)) result += c >= ' ' && c <= '~' ? c : '?';
  return result + (text.size() > kMost ? "...\"" : "\"");
}

}  // namespace msprobe::io

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/utf8.h"

#include <cstdint>
#include <cstring>

namespace msprobe::io {

std::size_t utf8_sequence(std::string_view text) noexcept {
  const auto byte = [text](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const std::uint8_t second = byte(1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool outside = (first == 0xED && second > 0x9F) || (first == 0xF4 && second > 0x8F);
  return overlong || outside ? 0 : length;
}

bool is_ascii(std::string_view text) noexcept {
  constexpr std::uint64_t kHighBits = 0x8080808080808080;
  std::uint64_t seen = 0;
  std::size_t i = 0;
  for (; i + sizeof(seen) <= text.size(); i += sizeof(seen)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + i, sizeof(word));
    seen |= word;
  }
  for (; i < text.size(); ++i) seen |= static_cast<std::uint8_t>(text[i]);
  return (seen & kHighBits) == 0;
}

std::string with_escaped_bytes(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string result;
  while (!text.empty()) {
    const std::size_t length = utf8_sequence(text);
    if (length == 0) {
      const auto byte = static_cast<std::uint8_t>(text[0]);
      (result += "\\x") += {kDigits[byte >> 4], kDigits[byte & 15]};
    }
    result += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return result;
}

namespace {

// The first byte from `position` on that is not ASCII, or the end.
std::size_t after_ascii(std::string_view text, std::size_t position) noexcept {
  constexpr std::uint64_t kHighBits = 0x8080808080808080;
  for (std::uint64_t word = 0; position + sizeof(word) <= text.size(); position += sizeof(word)) {
    std::memcpy(&word, text.data() + position, sizeof(word));
    if ((word & kHighBits) != 0) break;
  }
  while (position < text.size() && static_cast<std::uint8_t>(text[position]) < 0x80) ++position;
  return position;
}

}  // namespace

std::size_t find_invalid_utf8(std::string_view text) noexcept {
  for (std::size_t i = after_ascii(text, 0); i < text.size(); i = after_ascii(text, i)) {
    const std::size_t length = utf8_sequence(text.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return std::string_view::npos;
}

}  // namespace msprobe::io

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "base/base64.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace msprobe {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t kNoDigit = 64;

constexpr std::array<std::uint8_t, 256> kValues = [] {
  std::array<std::uint8_t, 256> values{};
  values.fill(kNoDigit);
  for (std::size_t i = 0; i < kDigits.size(); ++i) {
    values[static_cast<unsigned char>(kDigits[i])] = static_cast<std::uint8_t>(i);
  }
  return values;
}();

std::uint32_t byte_at(std::string_view bytes, std::size_t i) {
  return i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0;
}

}  // namespace

void append_base64(std::string& out, std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::uint32_t group = byte_at(bytes, i) << 16 | byte_at(bytes, i + 1) << 8 | byte_at(bytes, i + 2);
    const std::size_t digits = std::min<std::size_t>(bytes.size() - i, 3) + 1;
    for (std::size_t d = 0; d < 4; ++d) out += d < digits ? kDigits[group >> (18 - 6 * d) & 63] : '=';
  }
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    const std::size_t digits = i + 4 == text.size() ? 4 - padding : 4;
    std::uint32_t group = 0;
    for (std::size_t d = 0; d < 4; ++d) {
      const std::uint8_t value = d < digits ? kValues[static_cast<unsigned char>(text[i + d])] : 0;
      if (value == kNoDigit) return std::nullopt;
      group = group << 6 | value;
    }
    const std::uint32_t unused = (1U << (8 * (4 - digits))) - 1;
    if ((group & unused) != 0) return std::nullopt;
    for (std::size_t b = 0; b + 1 < digits; ++b) bytes += static_cast<char>(group >> (16 - 8 * b) & 255);
  }
  return bytes;
}

}  // namespace msprobe

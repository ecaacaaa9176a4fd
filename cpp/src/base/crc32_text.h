// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace msprobe {

/// A CRC-32 as formats and file names show it: eight hexadecimal digits, small letters.
inline std::string crc32_text(std::uint32_t crc) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text(8, '0');
  for (std::size_t i = text.size(); i-- > 0; crc >>= 4) text[i] = kDigits[crc & 15];
  return text;
}

}  // namespace msprobe

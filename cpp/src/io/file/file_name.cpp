// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/file/file_name.h"

#include <cstddef>
#include <cstdint>

namespace msprobe::io {
namespace {

constexpr std::size_t kLongestFileName = 255;  // NAME_MAX of the common file systems
constexpr std::string_view kHexDigits = "0123456789ABCDEF";

// FNV-1a, 64 bits: http://www.isthe.com/chongo/tech/comp/fnv/
std::uint64_t hash(std::string_view text) noexcept {
  std::uint64_t value = 0xcbf29ce484222325;
  for (const char c : text) value = (value ^ static_cast<std::uint8_t>(c)) * 0x100000001b3;
  return value;
}

}  // namespace

std::string file_name_of(std::string_view name, std::string_view ending) {
  if (ending.empty() && name.empty()) return "%";
  const bool only_dots = ending.empty() && (name == "." || name == "..");
  std::string result;
  for (const char c : name) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (c == '/' || c == '%' || byte < 0x20 || byte == 0x7F || only_dots) {
      result += {'%', kHexDigits[byte >> 4], kHexDigits[byte & 15]};
    } else {
      result += c;
    }
  }
  if (result.size() + ending.size() > kLongestFileName) {
    // "%~" cannot come from a name, so no other name has this file.
    std::string mark = "%~";
    const std::uint64_t value = hash(name);
    for (int shift = 60; shift >= 0; shift -= 4) mark += kHexDigits[value >> shift & 15];
    std::size_t length = kLongestFileName - ending.size() - mark.size();
    while ((static_cast<std::uint8_t>(result[length]) & 0xC0) == 0x80)
      --length;  // not inside a UTF-8 sequence
    result.resize(length);
    result += mark;
  }
  return result.append(ending);
}

}  // namespace msprobe::io

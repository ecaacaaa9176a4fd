// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// The zip format as far as torch.save uses it: stored entries only. PKWARE's APPNOTE.TXT 6.3.10.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace msprobe::io::zip {

// Each record begins with one of these.
inline constexpr std::uint32_t kLocalHeader = 0x04034B50;
inline constexpr std::uint32_t kDataDescriptor = 0x08074B50;
inline constexpr std::uint32_t kCentralHeader = 0x02014B50;
inline constexpr std::uint32_t kZip64End = 0x06064B50;
inline constexpr std::uint32_t kZip64Locator = 0x07064B50;
inline constexpr std::uint32_t kEnd = 0x06054B50;

// Bytes of the fixed part of a record, its signature included.
inline constexpr std::size_t kLocalHeaderBytes = 30;
inline constexpr std::size_t kCentralHeaderBytes = 46;
inline constexpr std::size_t kZip64EndBytes = 56;
inline constexpr std::size_t kZip64LocatorBytes = 20;
inline constexpr std::size_t kEndBytes = 22;

using Short = std::uint16_t;
using Long = std::uint32_t;

// Methods of compression.
inline constexpr Short kStored = 0;  // none
inline constexpr Short kDeflated = 8;

// Bits of the flags of an entry.
inline constexpr std::uint16_t kEncrypted = 1U << 0;
inline constexpr std::uint16_t kSizesFollowData = 1U << 3;  // in a data descriptor
inline constexpr std::uint16_t kUtf8Names = 1U << 11;

inline constexpr std::uint16_t kZip64Extra = 0x0001;  // id of the extra field with 64-bit numbers
inline constexpr std::uint16_t kInZip64 = 0xFFFF;     // stands for "see the 64-bit number"
inline constexpr std::uint32_t kInZip64Long = 0xFFFFFFFF;

/// Appends `value`, little endian.
template <std::unsigned_integral T>
void put(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}

/// The number at `offset`, little endian. The caller has checked that it lies within `bytes`.
template <std::unsigned_integral T>
T get(std::span<const std::uint8_t> bytes, std::size_t offset) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value | static_cast<T>(bytes[offset + i]) << (8 * i));
  }
  return value;
}

}  // namespace msprobe::io::zip

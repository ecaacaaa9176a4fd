// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Arithmetic modulo the generator of CRC-32. A polynomial over GF(2) of degree below 32 is an integer with
/// its bits reflected, as the CRC itself: bit 31 is the coefficient of x^0.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace msprobe {

constexpr std::uint32_t crc32_multiply(std::uint32_t a, std::uint32_t b) noexcept {
  constexpr std::uint32_t generator = 0xEDB88320;
  std::uint32_t product = 0;
  for (std::uint32_t bit = 0x80000000; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = (b >> 1) ^ (b & 1 ? generator : 0);
  }
  return product;
}

/// x^(2^k) for k = 0 ... 63.
inline constexpr std::array<std::uint32_t, 64> kCrc32Squares = [] {
  std::array<std::uint32_t, 64> squares{0x80000000 >> 1};
  for (std::size_t k = 1; k < squares.size(); ++k)
    squares[k] = crc32_multiply(squares[k - 1], squares[k - 1]);
  return squares;
}();

/// x^n: a product of as many squares as `n` has bits.
constexpr std::uint32_t crc32_power_of_x(std::uint64_t n) noexcept {
  if (n == 0) return 0x80000000;
  std::uint32_t power = kCrc32Squares[static_cast<std::size_t>(std::countr_zero(n))];
  for (n &= n - 1; n != 0; n &= n - 1) {
    power = crc32_multiply(power, kCrc32Squares[static_cast<std::size_t>(std::countr_zero(n))]);
  }
  return power;
}

}  // namespace msprobe

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

/// What the two halves of 128 bits of a message are multiplied by to move them to a place `bytes` later.
///
/// Bit i of a half is the coefficient of x^(63-i), in the lower half times x^64 for its place. Bit i + j of a
/// carry-less product comes from the bits i and j of its factors; read as 128 bits that end with x^0, it is
/// the product of the polynomials times x: hence one power less. A factor is a remainder of 32 bits, at the
/// end of a half.
struct Crc32Factors {
  std::uint64_t lower;
  std::uint64_t upper;
};

template <std::uint64_t bytes>
inline constexpr Crc32Factors kCrc32Factors{std::uint64_t{crc32_power_of_x(8 * bytes + 63)} << 32,
                                            std::uint64_t{crc32_power_of_x(8 * bytes - 1)} << 32};

}  // namespace msprobe

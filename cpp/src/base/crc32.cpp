// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "base/crc32.h"

#include <libdeflate.h>

namespace msprobe {
namespace {

constexpr std::uint32_t kPolynomial = 0xEDB88320;  // bit-reflected; bit 31 is x^0

// Product of two polynomials modulo the generator.
std::uint32_t multiply(std::uint32_t a, std::uint32_t b) noexcept {
  std::uint32_t product = 0;
  for (std::uint32_t bit = 0x80000000; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = (b >> 1) ^ (b & 1 ? kPolynomial : 0);
  }
  return product;
}

// x^(8 * bytes) modulo the generator, by repeated squaring.
std::uint32_t power_of_x8(std::uint64_t bytes) noexcept {
  std::uint32_t result = 0x80000000;       // x^0
  std::uint32_t square = 0x80000000 >> 8;  // x^8
  for (; bytes != 0; bytes >>= 1) {
    if (bytes & 1) result = multiply(result, square);
    square = multiply(square, square);
  }
  return result;
}

}  // namespace

std::uint32_t crc32(std::uint32_t crc, const void* data, std::size_t bytes) noexcept {
  return bytes == 0 ? crc : libdeflate_crc32(crc, data, bytes);
}

std::uint32_t crc32_combine(std::uint32_t crc_a, std::uint32_t crc_b, std::uint64_t bytes_b) noexcept {
  return multiply(crc_a, power_of_x8(bytes_b)) ^ crc_b;
}

}  // namespace msprobe

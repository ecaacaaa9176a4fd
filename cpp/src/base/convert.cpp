// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "base/convert.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/half.h"

namespace msprobe {
namespace {

constexpr double power_of_two(int exponent) {
  double value = 1;
  for (; exponent > 0; --exponent) value *= 2;
  for (; exponent < 0; ++exponent) value /= 2;
  return value;
}

// How an 8-bit float spends its bits and its special values.
struct Float8 {
  int mantissa_bits;
  int bias;
  bool ieee;               // the largest exponent holds Inf and NaN
  bool nan_is_minus_zero;  // "fnuz": 0x80 is the only NaN
};

// NaN keeps the bits that torch gives it, so that checksums of converted elements agree.
constexpr float decode(unsigned bits, Float8 format) {
  const unsigned mantissa = bits & ((1U << format.mantissa_bits) - 1);
  const int exponent = static_cast<int>((bits & 0x7F) >> format.mantissa_bits);
  const int largest = (1 << (7 - format.mantissa_bits)) - 1;
  const std::uint32_t sign = (bits & 0x80) << 24;
  if (format.nan_is_minus_zero && bits == 0x80) return std::bit_cast<float>(0x7F800001U);
  if (format.ieee && exponent == largest) {
    const std::uint32_t quiet = mantissa != 0 ? 0x00400000 : 0;
    return std::bit_cast<float>(sign | 0x7F800000U | quiet | mantissa << (23 - format.mantissa_bits));
  }
  if (!format.ieee && !format.nan_is_minus_zero && (bits & 0x7F) == 0x7F) {  // e4m3fn
    return std::bit_cast<float>(sign | 0x7FF00000U);
  }
  const double step = power_of_two((exponent == 0 ? 1 : exponent) - format.bias - format.mantissa_bits);
  const unsigned digits = exponent == 0 ? mantissa : mantissa | (1U << format.mantissa_bits);
  return (bits & 0x80 ? -1.0F : 1.0F) * static_cast<float>(digits * step);
}

using Table = std::array<float, 256>;

constexpr Table table_of(Float8 format) {
  Table table{};
  for (unsigned bits = 0; bits < 256; ++bits) table[bits] = decode(bits, format);
  return table;
}

// Eight exponent bits and nothing else: 2^(bits - 127), 255 is NaN.
constexpr Table table_of_e8m0() {
  Table table{};
  for (int bits = 0; bits < 255; ++bits) table[bits] = static_cast<float>(power_of_two(bits - 127));
  table[255] = std::bit_cast<float>(0x7F800001U);
  return table;
}

constexpr Table kE4M3FN = table_of({3, 7, false, false});
constexpr Table kE4M3FNUZ = table_of({3, 8, false, true});
constexpr Table kE5M2 = table_of({2, 15, true, false});
constexpr Table kE5M2FNUZ = table_of({2, 16, false, true});
constexpr Table kE8M0 = table_of_e8m0();

template <typename To>
void look_up(const void* data, const Table& table, std::size_t count, To* out) {
  const auto* bytes = static_cast<const std::uint8_t*>(data);
  for (std::size_t i = 0; i < count; ++i) out[i] = table[bytes[i]];
}

template <typename From, typename To>
void cast(const void* data, std::size_t count, To* out) {
  const auto* values = static_cast<const From*>(data);
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<To>(values[i]);
}

void widen(const void* data, Half kind, std::size_t count, float* out) {
  widen_half(static_cast<const std::uint16_t*>(data), count, kind, out);
}

void widen(const void* data, Half kind, std::size_t count, double* out) {
  constexpr std::size_t piece = 256;
  std::array<float, piece> floats;
  for (std::size_t i = 0; i < count; i += piece) {
    const std::size_t n = count - i < piece ? count - i : piece;
    widen(static_cast<const std::uint16_t*>(data) + i, kind, n, floats.data());
    cast<float>(floats.data(), n, out + i);
  }
}

template <typename To>
void convert(const void* data, DType dtype, std::size_t count, To* out) {
  switch (dtype) {
    case DType::kFloat64: return cast<double>(data, count, out);
    case DType::kFloat32: return cast<float>(data, count, out);
    case DType::kFloat16: return widen(data, Half::kFloat16, count, out);
    case DType::kBFloat16: return widen(data, Half::kBFloat16, count, out);
    case DType::kFloat8E4M3FN: return look_up(data, kE4M3FN, count, out);
    case DType::kFloat8E4M3FNUZ: return look_up(data, kE4M3FNUZ, count, out);
    case DType::kFloat8E5M2: return look_up(data, kE5M2, count, out);
    case DType::kFloat8E5M2FNUZ: return look_up(data, kE5M2FNUZ, count, out);
    case DType::kFloat8E8M0FNU: return look_up(data, kE8M0, count, out);
    case DType::kInt64: return cast<std::int64_t>(data, count, out);
    case DType::kInt32: return cast<std::int32_t>(data, count, out);
    case DType::kInt16: return cast<std::int16_t>(data, count, out);
    case DType::kInt8: return cast<std::int8_t>(data, count, out);
    case DType::kUInt64: return cast<std::uint64_t>(data, count, out);
    case DType::kUInt32: return cast<std::uint32_t>(data, count, out);
    case DType::kUInt16: return cast<std::uint16_t>(data, count, out);
    case DType::kUInt8: return cast<std::uint8_t>(data, count, out);
    case DType::kBool: {  // any byte but 0 is true
      const auto* bytes = static_cast<const std::uint8_t*>(data);
      for (std::size_t i = 0; i < count; ++i) out[i] = bytes[i] != 0;
      return;
    }
    case DType::kComplex32: return convert(data, DType::kFloat16, 2 * count, out);
    case DType::kComplex64: return convert(data, DType::kFloat32, 2 * count, out);
    case DType::kComplex128: return convert(data, DType::kFloat64, 2 * count, out);
  }
}

}  // namespace

bool fits_float(DType dtype) noexcept {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kComplex128:
    case DType::kInt64:
    case DType::kInt32:
    case DType::kUInt64:
    case DType::kUInt32: return false;
    default: return true;
  }
}

void convert_to_float(const void* data, DType dtype, std::size_t count, float* out) {
  convert(data, dtype, count, out);
}

void convert_to_double(const void* data, DType dtype, std::size_t count, double* out) {
  convert(data, dtype, count, out);
}

double rounded_to_half(double value, DType dtype) noexcept {
  if (dtype != DType::kFloat16 && dtype != DType::kBFloat16) return value;
  if (!std::isfinite(value) || value == 0) return value;
  const bool is_float16 = dtype == DType::kFloat16;
  const int bits = is_float16 ? 10 : 7;  // behind the point
  const int exponent = std::max(std::ilogb(value), is_float16 ? -14 : -126);
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, bits - exponent)), exponent - bits);
  const double largest = is_float16 ? 65504 : 0x1.FEp127;
  return std::abs(rounded) > largest ? std::copysign(std::numeric_limits<double>::infinity(), value)
                                     : rounded;
}

}  // namespace msprobe

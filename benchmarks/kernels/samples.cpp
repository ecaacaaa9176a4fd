// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/samples.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <new>
#include <random>
#include <stdexcept>
#include <string>

namespace msprobe::bench {
namespace {

// An IEEE-like small float: `exponent_bits` and `mantissa_bits` below one sign bit.
struct SmallFloat {
  int exponent_bits;
  int mantissa_bits;

  double value(unsigned bits) const {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const auto mantissa = static_cast<double>(bits & ((1U << mantissa_bits) - 1));
    const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
    const double scale = std::ldexp(1.0, -mantissa_bits);
    const double magnitude = exponent == 0 ? std::ldexp(mantissa * scale, 1 - bias)
                                           : std::ldexp(1 + mantissa * scale, exponent - bias);
    return (bits >> (exponent_bits + mantissa_bits)) != 0 ? -magnitude : magnitude;
  }

  // Truncated, not rounded: these are only samples. Finite, of moderate size.
  unsigned bits(double number) const {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = 0;
    const double fraction = std::frexp(std::fabs(number), &exponent);  // in [0.5, 1)
    const unsigned sign = std::signbit(number) ? 1U << (exponent_bits + mantissa_bits) : 0U;
    if (number == 0 || exponent - 1 + bias < 1) return sign;
    const auto mantissa = static_cast<unsigned>(std::ldexp(2 * fraction - 1, mantissa_bits));
    return sign | static_cast<unsigned>(exponent - 1 + bias) << mantissa_bits | mantissa;
  }
};

constexpr SmallFloat kFloat16{5, 10};
constexpr SmallFloat kBFloat16{8, 7};
constexpr SmallFloat kFloat8{4, 3};

template <typename T, typename Make>
void fill_as(const Memory& memory, Make make) {
  // A stretch of random numbers repeated: the kernels do not care, and making 256 MiB of them takes long.
  constexpr std::size_t kStretch = std::size_t{1} << 20;
  const std::size_t count = memory.size() / sizeof(T);
  auto* out = reinterpret_cast<T*>(memory.data());
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal(0.0, 1.0);
  for (std::size_t i = 0; i < count && i < kStretch; ++i) {
    const T value = make(random() % 64 == 0 ? 0.0 : normal(random));
    std::memcpy(out + i, &value, sizeof value);
  }
  for (std::size_t i = kStretch; i < count; ++i) out[i] = out[i - kStretch];
}

template <typename T>
T load(const void* data, std::size_t index) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(data) + index * sizeof(T), sizeof value);
  return value;
}

[[noreturn]] void unknown(DType dtype) {
  throw std::invalid_argument("benchmark: no samples of dtype " + std::string(dtype_name(dtype)));
}

}  // namespace

Memory::Memory(std::size_t bytes)
    : size_(bytes), data_(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64))) {
  if (!data_) throw std::bad_alloc();
}

void fill(const Memory& memory, DType dtype) {
  switch (dtype) {
    case DType::kFloat64: return fill_as<double>(memory, [](double x) { return 0.01 * x; });
    case DType::kFloat32:
      return fill_as<float>(memory, [](double x) { return static_cast<float>(0.01 * x); });
    case DType::kFloat16:
      return fill_as<std::uint16_t>(
          memory, [](double x) { return static_cast<std::uint16_t>(kFloat16.bits(0.01 * x)); });
    case DType::kBFloat16:
      return fill_as<std::uint16_t>(
          memory, [](double x) { return static_cast<std::uint16_t>(kBFloat16.bits(0.01 * x)); });
    case DType::kFloat8E4M3FN:
      return fill_as<std::uint8_t>(memory,
                                   [](double x) { return static_cast<std::uint8_t>(kFloat8.bits(x)); });
    case DType::kInt64:
      return fill_as<std::int64_t>(memory, [](double x) { return static_cast<std::int64_t>(1000 * x); });
    default: unknown(dtype);
  }
}

double element(const void* data, DType dtype, std::size_t index) {
  switch (dtype) {
    case DType::kFloat64: return load<double>(data, index);
    case DType::kFloat32: return load<float>(data, index);
    case DType::kFloat16: return kFloat16.value(load<std::uint16_t>(data, index));
    case DType::kBFloat16: return kBFloat16.value(load<std::uint16_t>(data, index));
    case DType::kFloat8E4M3FN: return kFloat8.value(load<std::uint8_t>(data, index));
    case DType::kInt64: return static_cast<double>(load<std::int64_t>(data, index));
    default: unknown(dtype);
  }
}

}  // namespace msprobe::bench

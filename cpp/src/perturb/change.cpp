// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// Changes of an input.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/float_environment.h"
#include "msprobe/error.h"
#include "msprobe/perturb.h"
#include "perturb/kernels.h"

namespace msprobe::perturb {
namespace {

constexpr std::array<std::pair<Mode, std::string_view>, 6> kModes{{
    {Mode::kImprovePrecision, "improve_precision"},
    {Mode::kAddNoise, "add_noise"},
    {Mode::kBitNoise, "bit_noise"},
    {Mode::kChangeValue, "change_value"},
    {Mode::kNoChange, "no_change"},
    {Mode::kToCpu, "to_cpu"},
}};

// A floating point number by its bits: the exponent begins at bit `mantissa`. What is above kInfinity in
// magnitude is NaN.
template <typename Bits, int mantissa>
struct Format {
  using Word = Bits;
  static constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  static constexpr Bits kSmallestNormal = static_cast<Bits>(Bits{1} << mantissa);
  static constexpr Bits kInfinity = static_cast<Bits>(static_cast<Bits>(~kSign) >> mantissa << mantissa);
};
using Float64 = Format<std::uint64_t, 52>;
using Float32 = Format<std::uint32_t, 23>;
using Float16 = Format<std::uint16_t, 10>;
using BFloat16 = Format<std::uint16_t, 7>;

// The number whose magnitude has these bits.
double number_of(DType dtype, std::uint64_t magnitude) {
  switch (dtype) {
    case DType::kFloat64: return std::bit_cast<double>(magnitude);
    case DType::kFloat32: return std::bit_cast<float>(static_cast<std::uint32_t>(magnitude));
    case DType::kBFloat16: return std::bit_cast<float>(static_cast<std::uint32_t>(magnitude) << 16);
    default: break;
  }
  const auto exponent = static_cast<int>(magnitude >> 10);
  const auto mantissa = static_cast<double>(magnitude & 0x3FF);
  if (exponent == 31) return std::numeric_limits<double>::infinity();
  return exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25);
}

template <typename Use>
double with_format(DType dtype, Use use) {
  switch (dtype) {
    case DType::kFloat64: return number_of(dtype, use(Float64()));
    case DType::kFloat32: return number_of(dtype, use(Float32()));
    case DType::kFloat16: return number_of(dtype, use(Float16()));
    case DType::kBFloat16: return number_of(dtype, use(BFloat16()));
    default: break;
  }
  throw InvalidArgument("perturb: expected float64, float32, float16 or bfloat16, found " +
                        std::string(dtype_name(dtype)));
}

// Copies words, each through `change`; the largest magnitude but NaN.
template <typename F, typename Change>
typename F::Word copy_changed(F, const void* from, void* to, std::size_t count, Change change) {
  using Word = typename F::Word;
  const auto* in = static_cast<const Word*>(from);
  auto* out = static_cast<Word*>(to);
  Word largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Word word = in[i];
    const Word magnitude = static_cast<Word>(word & static_cast<Word>(~F::kSign));
    largest = std::max(largest, magnitude > F::kInfinity ? Word{0} : magnitude);
    out[i] = change(word, magnitude, i);
  }
  return largest;
}

// splitmix64, by Sebastiano Vigna (public domain): a random word for each number.
constexpr std::uint64_t random_word(std::uint64_t number) {
  number += 0x9E3779B97F4A7C15U;
  number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9U;
  number = (number ^ number >> 27) * 0x94D049BB133111EBU;
  return number ^ number >> 31;
}

}  // namespace

std::string_view mode_name(Mode mode) noexcept { return kModes[static_cast<std::size_t>(mode)].second; }

std::optional<Mode> mode_named(std::string_view name) noexcept {
  for (const auto& [mode, known] : kModes) {
    if (known == name) return mode;
  }
  return std::nullopt;
}

double noise_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::kFloat64: return 1e-16;
    case DType::kFloat32: return 1e-8;
    case DType::kFloat16: return 1e-6;
    case DType::kBFloat16: return 1e-4;
    default: return 0;
  }
}

double add_noise(DType dtype, const void* from, void* to, std::size_t count) {
  if (!is_supported(dtype)) with_format(dtype, [](auto format) { return format.kSign; });
  const FloatEnvironment environment;
  const double noise = noise_of(dtype);
  return kernels().add_noise[static_cast<std::size_t>(dtype)](from, to, count, noise, std::sqrt(noise));
}

double flip_last_bits(DType dtype, const void* from, void* to, std::size_t count) {
  const FloatEnvironment environment;
  return with_format(dtype, [&](auto format) {
    using F = decltype(format);
    constexpr std::size_t table = sizeof(typename F::Word) == 2 ? 0 : sizeof(typename F::Word) == 4 ? 1 : 2;
    return kernels().flip_last_bits[table](from, to, count, F::kSmallestNormal, F::kInfinity);
  });
}

double add_random_ulps(DType dtype, const void* from, void* to, std::size_t count, std::uint64_t seed,
                       std::uint64_t first, int power) {
  const FloatEnvironment environment;
  return with_format(dtype, [&](auto format) {
    using F = decltype(format);
    using Word = typename F::Word;
    const auto step = static_cast<Word>(Word{1} << power);
    return copy_changed(format, from, to, count, [=](Word word, Word magnitude, std::size_t i) {
      if (magnitude == 0 || magnitude >= F::kInfinity - step) return word;
      const bool up = magnitude <= step || random_word(seed ^ random_word(first + i)) >> 63 != 0;
      return static_cast<Word>(up ? word + step : word - step);
    });
  });
}

}  // namespace msprobe::perturb

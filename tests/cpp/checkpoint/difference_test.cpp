// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// The fast way against metrics::compare(), which does everything in double.
#include "checkpoint/difference.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "catch.h"

namespace msprobe::checkpoint {
namespace {

constexpr DType kDTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

// Elements of a dtype, from an odd address on.
class Memory {
 public:
  Memory(const std::vector<float>& values, DType dtype) : bytes_(1 + values.size() * element_size(dtype)) {
    std::byte* at = bytes_.data() + 1;
    for (const float value : values) {
      if (dtype == DType::kFloat32) {
        std::memcpy(at, &value, sizeof value);
      } else {
        const std::uint16_t bits = dtype == DType::kBFloat16 ? upper_half(value) : to_half(value);
        std::memcpy(at, &bits, sizeof bits);
      }
      at += element_size(dtype);
    }
  }

  const std::byte* data() const { return bytes_.data() + 1; }
  std::vector<std::byte> aligned() const { return {bytes_.begin() + 1, bytes_.end()}; }

 private:
  static std::uint16_t upper_half(float value) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return static_cast<std::uint16_t>(bits >> 16);
  }

  // Toward zero; normal numbers, zero and what is not finite.
  static std::uint16_t to_half(float value) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000U);
    if (std::isnan(value)) return sign | 0x7E00U;
    if (std::abs(value) >= 65504) return sign | 0x7C00U;
    if (std::abs(value) < 0x1p-14F) return sign;
    return static_cast<std::uint16_t>(sign | ((bits & 0x7FFFFFFFU) - 0x38000000U) >> 13);
  }

  std::vector<std::byte> bytes_;
};

void check(const std::vector<float>& reference, const std::vector<float>& target) {
  for (const DType dtype : kDTypes) {
    CAPTURE(dtype_name(dtype), reference.size());
    const Memory n(reference, dtype);
    const Memory b(target, dtype);
    Difference found;
    add_pairs(found, fast_way(dtype, dtype).value(), n.data(), b.data(), reference.size());
    const std::vector<std::int64_t> shape{static_cast<std::int64_t>(reference.size())};
    const std::vector<std::byte> l = n.aligned();
    const std::vector<std::byte> r = b.aligned();
    const Difference expected = difference_of({l.data(), dtype, shape, {}}, {r.data(), dtype, shape, {}});

    CHECK(found.count == expected.count);
    CHECK(found.finite_pairs == expected.finite_pairs);
    CHECK(found.both_non_finite == expected.both_non_finite);
    CHECK(found.one_sided == expected.one_sided);
    CHECK(found.equal_bits == expected.equal_bits);
    CHECK(found.reference.nan_count == expected.reference.nan_count);
    CHECK(found.reference.inf_count == expected.reference.inf_count);
    CHECK(found.target.nan_count == expected.target.nan_count);
    CHECK(found.target.inf_count == expected.target.inf_count);
    CHECK(found.max_relative == expected.max_relative);
    const auto close = [](double value, double reference, double scale) {
      return std::abs(value - reference) <= 3e-7 * scale || value == reference;
    };
    CHECK(close(found.max_absolute, expected.max_absolute, expected.max_absolute));
    CHECK(close(found.squared_distance, expected.squared_distance, expected.squared_distance));
    CHECK(close(found.reference.squares, expected.reference.squares, expected.reference.squares));
    CHECK(close(found.target.squares, expected.target.squares, expected.target.squares));
    CHECK(close(found.dot, expected.dot, std::sqrt(expected.reference.squares * expected.target.squares)));
    const auto size = static_cast<double>(reference.size());
    CHECK(close(found.reference.sum, expected.reference.sum, std::sqrt(expected.reference.squares * size)));
    CHECK(close(found.target.sum, expected.target.sum, std::sqrt(expected.target.squares * size)));
  }
}

std::vector<float> random_values(std::size_t count, float scale, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

std::vector<float> sum(std::vector<float> reference, const std::vector<float>& target) {
  for (std::size_t i = 0; i < reference.size(); ++i) reference[i] += target[i];
  return reference;
}

TEST_CASE("add_pairs: what double finds, for any number of pairs") {
  for (const std::size_t count : {0, 1, 31, 32, 33, 255, 1023, 1024, 1025, 4096, 20'000}) {
    const std::vector<float> values = random_values(count, 0.02F, 1);
    check(values, sum(values, random_values(count, 1e-3F, 2)));
    check(values, random_values(count, 3, 3));
  }
}

TEST_CASE("add_pairs: values whose squares are beyond float") {
  for (const float scale : {1e-38F, 1e-30F, 1e-21F, 1e-16F, 1e15F, 1e19F, 1e25F, 1e37F}) {
    const std::vector<float> values = random_values(3000, scale, 4);
    check(values, sum(values, random_values(3000, scale / 64, 5)));
    check(values, random_values(3000, 1, 6));
    check(random_values(3000, 1, 6), values);
  }
  // A difference that is far smaller than the values.
  std::vector<float> values = random_values(2048, 1, 7);
  values[100] = 0x1p-60F;
  std::vector<float> other = values;
  other[100] = 0x1.8p-60F;
  check(values, other);
}

TEST_CASE("add_pairs: blocks that are equal, all zero, or zero on one side") {
  std::vector<float> values = random_values(8 * kBlock, 1, 8);
  check(values, values);
  check(std::vector<float>(5000), std::vector<float>(5000));
  check(values, std::vector<float>(values.size()));
  check(std::vector<float>(values.size()), values);
  std::vector<float> other = values;
  std::fill(values.begin(), values.begin() + 2 * kBlock, 0.0F);
  std::fill(other.begin() + kBlock, other.begin() + 3 * kBlock, 0.0F);
  other[4 * kBlock + kLanes] += 1;  // behind a row that is equal
  values[5 * kBlock] = 0.0F;
  other[5 * kBlock] = -0.0F;  // no difference, but other bits
  other[6 * kBlock + 1] = 0;  // an error of 2^52 or so
  check(values, other);
  check(other, values);
}

TEST_CASE("add_pairs: the largest relative error, wherever it is") {
  std::vector<float> values = random_values(4 * kBlock, 1, 9);
  for (const std::size_t place : {std::size_t{0}, kLanes + 17, kBlock - 1, kBlock, 3 * kBlock + 500}) {
    std::vector<float> other = values;
    for (float& value : other) value *= 1.0078125F;
    other[place] = values[place] / 1000;
    check(values, other);
    other[(place + 1) % other.size()] = 1e-39F;  // the quotient is infinite, but for float16
    check(values, other);
  }
}

TEST_CASE("add_pairs: elements that are not finite are counted, and their neighbours compared") {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<float> values = random_values(5 * kBlock + 7, 1, 10);
  std::vector<float> other = sum(values, random_values(values.size(), 0.01F, 11));
  values[3] = kNaN;
  other[3] = kInf;
  values[kBlock + 1] = -kInf;
  other[kBlock + 1] = -kInf;
  other[2 * kBlock + 40] = kNaN;
  values.back() = kInf;
  check(values, other);
  std::fill(values.begin(), values.begin() + 2 * kBlock, kNaN);
  check(values, values);
}

}  // namespace
}  // namespace msprobe::checkpoint

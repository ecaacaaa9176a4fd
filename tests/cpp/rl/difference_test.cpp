// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "catch.h"
#include "msprobe/error.h"
#include "msprobe/rl.h"

using namespace msprobe;
using rl::Difference;

namespace {

// What is compared with NumPy is in tests/python/rl.

template <typename T>
Difference compare(const std::vector<T>& reference, const std::vector<T>& target, DType dtype,
                   rl::Tolerance tolerance = {}) {
  const std::vector<std::int64_t> shape = {static_cast<std::int64_t>(reference.size())};
  return rl::compare({reference.data(), dtype, shape, {}}, {target.data(), dtype, shape, {}}, tolerance);
}

}  // namespace

TEST_CASE("vectors of any length agree with one pair at a time") {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const std::size_t count : {0U, 1U, 3U, 15U, 16U, 17U, 1023U, 1024U, 1025U, 5000U}) {
    std::vector<float> reference(count);
    std::vector<float> target(count);
    Difference wanted;
    for (std::size_t i = 0; i < count; ++i) {
      reference[i] = normal(random);
      target[i] = i % 3 == 0 ? reference[i] : reference[i] * (1 + 0.01F * normal(random));
      const float distance = std::abs(reference[i] - target[i]);
      const float larger = std::max(std::abs(reference[i]), std::abs(target[i]));
      wanted.same += reference[i] == target[i];
      wanted.within_thousandth += distance <= 0.001F * larger;
      wanted.within_hundredth += distance <= 0.01F * larger;
      wanted.within_tolerance += distance <= 0.02F * larger;
      wanted.max_absolute = std::max(wanted.max_absolute, static_cast<double>(distance));
      wanted.max_relative = std::max(wanted.max_relative, static_cast<double>(distance / larger));
    }
    const Difference found = compare(reference, target, DType::kFloat32, {0.02, 0});
    CHECK(found.count == static_cast<std::int64_t>(count));
    CHECK(found.same == wanted.same);
    CHECK(found.within_thousandth == wanted.within_thousandth);
    CHECK(found.within_hundredth == wanted.within_hundredth);
    CHECK(found.within_tolerance == wanted.within_tolerance);
    CHECK(found.max_absolute == wanted.max_absolute);
    CHECK(found.max_relative == wanted.max_relative);
  }
}

TEST_CASE("the first mismatch and the first pair beyond the tolerance are found") {
  std::vector<double> reference(3000, 1.0);
  std::vector<double> target = reference;
  target[1500] = 1.001;
  target[2999] = 2;
  const Difference found = compare(reference, target, DType::kFloat64);
  CHECK(found.first_mismatch == 1500);
  CHECK(found.first_beyond == 2999);
  CHECK(found.same == 2998);
  CHECK(found.within_tolerance == 2999);
}

TEST_CASE("integers of 64 bits are told apart where doubles are not") {
  const std::int64_t large = (std::int64_t{1} << 62) + 1;
  const Difference found = compare<std::int64_t>({large, -large}, {large + 1, -large}, DType::kInt64);
  CHECK(found.same == 1);
  CHECK(found.max_absolute == 1);
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  CHECK(compare<std::uint64_t>({most}, {0}, DType::kUInt64).max_relative == 1);
  const std::int64_t least = std::numeric_limits<std::int64_t>::min();
  CHECK(compare<std::int64_t>({least}, {std::numeric_limits<std::int64_t>::max()}, DType::kInt64)
            .max_absolute == 0x1p64);
}

TEST_CASE("strides are followed") {
  const std::vector<float> memory = {0, 1, 2, 3, 4, 5};
  const std::vector<std::int64_t> shape = {3, 2};
  const std::vector<std::int64_t> columns = {1, 3};
  const std::vector<float> in_order = {0, 3, 1, 4, 2, 5};
  const Difference found = rl::compare({memory.data(), DType::kFloat32, shape, columns},
                                       {in_order.data(), DType::kFloat32, shape, {}});
  CHECK(found.same == 6);
}

TEST_CASE("complex numbers and other shapes are refused") {
  const std::vector<float> memory(4);
  const std::vector<std::int64_t> two = {2};
  const std::vector<std::int64_t> four = {4};
  CHECK_THROWS_AS(
      rl::compare({memory.data(), DType::kComplex64, two, {}}, {memory.data(), DType::kFloat32, two, {}}),
      InvalidArgument);
  CHECK_THROWS_AS(
      rl::compare({memory.data(), DType::kFloat32, four, {}}, {memory.data(), DType::kFloat32, two, {}}),
      InvalidArgument);
}

TEST_CASE("places are ordered by numbers, then by names") {
  const rl::Place alone{0, 0, 0, ""};
  const rl::Place two{0, 0, 0, "2"};
  const rl::Place ten{0, 0, 0, "10"};
  const rl::Place name{0, 0, 0, "a"};
  const rl::Place later{0, 0, 1, ""};
  const std::vector<rl::Place> wanted = {alone, two, ten, name, later};
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    for (std::size_t k = 0; k < wanted.size(); ++k) CHECK((wanted[i] < wanted[k]) == (i < k));
  }
}

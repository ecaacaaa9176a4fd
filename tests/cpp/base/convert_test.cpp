// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "base/convert.h"

#include <cmath>
#include <limits>

#include "catch.h"

using msprobe::DType;
using msprobe::rounded_to_half;

TEST_CASE("rounded_to_half: to the nearest number, ties to even, infinity beyond the largest") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  CHECK(rounded_to_half(1 + 0x1p-11, DType::kFloat16) == 1);
  CHECK(rounded_to_half(1 + 0x1.8p-10, DType::kFloat16) == 1 + 0x1p-9);
  CHECK(rounded_to_half(65519, DType::kFloat16) == 65504);
  CHECK(rounded_to_half(-65520, DType::kFloat16) == -kInfinity);
  CHECK(rounded_to_half(0x1.8p-24, DType::kFloat16) == 0x1p-23);  // smallest numbers
  CHECK(rounded_to_half(0x1p-26, DType::kFloat16) == 0);
  CHECK(rounded_to_half(1 + 0x1p-8, DType::kBFloat16) == 1);
  CHECK(rounded_to_half(0x1.FFp127, DType::kBFloat16) == kInfinity);
  CHECK(rounded_to_half(-kInfinity, DType::kBFloat16) == -kInfinity);
  CHECK(std::isnan(rounded_to_half(std::nan(""), DType::kFloat16)));
  CHECK(rounded_to_half(1 + 0x1p-40, DType::kFloat32) == 1 + 0x1p-40);
}

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "catch.h"
#include "msprobe/error.h"
#include "msprobe/stats.h"

using namespace msprobe;
using stats::Pair;
using stats::pair_sums;
using stats::PairSums;

namespace {

using Shape = std::vector<std::int64_t>;

template <typename T>
TensorView view_of(const std::vector<T>& values, const Shape& shape, const Shape& strides, DType dtype) {
  return {values.data(), dtype, shape, strides};
}

std::vector<float> waves(std::size_t count, float step) {
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(std::sin(static_cast<float>(i) * step));
  return values;
}

PairSums by_hand(const std::vector<float>& left, const std::vector<float>& right) {
  PairSums sums;
  sums.count = static_cast<std::int64_t>(left.size());
  for (std::size_t i = 0; i < left.size(); ++i) {
    const double x = left[i];
    const double y = right[i];
    sums.left_squares += x * x;
    sums.right_squares += y * y;
    sums.dot += x * y;
    sums.squared_distance += (x - y) * (x - y);
    sums.sign_balance += ((x > 0) - (x < 0)) * ((y > 0) - (y < 0));
  }
  return sums;
}

void check_same(const PairSums& found, const PairSums& expected) {
  CHECK(found.count == expected.count);
  CHECK(found.left_squares == Approx(expected.left_squares).epsilon(1e-12));
  CHECK(found.right_squares == Approx(expected.right_squares).epsilon(1e-12));
  CHECK(found.dot == Approx(expected.dot).epsilon(1e-9).margin(1e-9));
  CHECK(found.squared_distance == Approx(expected.squared_distance).epsilon(1e-12));
  CHECK(found.sign_balance == expected.sign_balance);
}

}  // namespace

TEST_CASE("pair sums: any size, any number of threads") {
  for (const std::size_t count : {0, 1, 15, 16, 17, 1024, 1025, 65536, 65537, 200003}) {
    std::vector<float> left = waves(count, 0.7F);
    const std::vector<float> right = waves(count, 1.3F);
    for (std::size_t i = 0; i < count; i += 7) left[i] = 0;
    const Shape shape{static_cast<std::int64_t>(count)};
    const Pair pair{view_of(left, shape, {}, DType::kFloat32), view_of(right, shape, {}, DType::kFloat32)};
    const PairSums alone = pair_sums({&pair, 1}).front();
    check_same(alone, by_hand(left, right));
    ThreadPool pool(3);
    const PairSums shared = pair_sums({&pair, 1}, &pool).front();
    CHECK(shared.dot == alone.dot);
    CHECK(shared.squared_distance == alone.squared_distance);
  }
}

TEST_CASE("pair sums: dtypes and strides of the sides may differ") {
  const std::vector<float> left{1, 2, 3, 4, 5, 6};
  const std::vector<double> right{1, 4, 2, 5, 3, -6};  // the same, transposed, with another sign at the end
  const Shape shape{2, 3};
  const Shape plain{3, 1};
  const Shape transposed{1, 2};
  const Pair pair{view_of(left, shape, plain, DType::kFloat32),
                  view_of(right, shape, transposed, DType::kFloat64)};
  const PairSums sums = pair_sums({&pair, 1}).front();
  CHECK(sums.dot == 1 + 4 + 9 + 16 + 25 - 36);
  CHECK(sums.squared_distance == 144);
  CHECK(sums.sign_balance == 4);
}

TEST_CASE("pair sums: tiny numbers have signs") {
  const std::vector<float> tiny{1e-30F, -1e-30F, 1e-45F};
  const Shape shape{3};
  const TensorView view = view_of(tiny, shape, {}, DType::kFloat32);
  const Pair pair{view, view};
  CHECK(pair_sums({&pair, 1}).front().sign_balance == 3);
}

TEST_CASE("pair sums: a NaN is in the sums and has no sign") {
  const std::vector<float> left{1, std::numeric_limits<float>::quiet_NaN()};
  const std::vector<float> right{1, 1};
  const Shape shape{2};
  const Pair pair{view_of(left, shape, {}, DType::kFloat32), view_of(right, shape, {}, DType::kFloat32)};
  const PairSums sums = pair_sums({&pair, 1}).front();
  CHECK(std::isnan(sums.dot));
  CHECK(sums.sign_balance == 1);
}

TEST_CASE("pair sums: shapes that differ and complex tensors are refused") {
  const std::vector<float> values(4, 1.0F);
  const Shape four{4};
  const Shape square{2, 2};
  const Pair shapes{view_of(values, four, {}, DType::kFloat32), view_of(values, square, {}, DType::kFloat32)};
  CHECK_THROWS_AS(pair_sums({&shapes, 1}), InvalidArgument);
  const Shape two{2};
  const Pair complex{view_of(values, two, {}, DType::kComplex64),
                     view_of(values, two, {}, DType::kComplex64)};
  CHECK_THROWS_AS(pair_sums({&complex, 1}), InvalidArgument);
}

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/result_error.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "catch.h"
#include "metrics/float_tensor.h"
#include "msprobe/error.h"

using namespace msprobe;
using metrics::measure_result;
using metrics::ResultError;
using metrics::ResultOptions;
using test::kInf;
using test::kNaN;

namespace {

// The tests that compare with torch are in tests/python/metrics; here is what needs no second opinion.

template <typename T>
struct TypedTensor {
  std::vector<T> values;
  DType dtype;
  std::vector<std::int64_t> shape = {static_cast<std::int64_t>(values.size())};

  TensorView view() const { return {values.data(), dtype, shape, {}}; }
};

TypedTensor<float> floats(std::vector<float> values) { return {std::move(values), DType::kFloat32}; }
TypedTensor<double> doubles(std::vector<double> values) { return {std::move(values), DType::kFloat64}; }

ResultOptions options() {
  ResultOptions result;
  result.small_value = 0.5;
  result.small_error = 0.01;
  result.relative_error = 0.1;
  return result;
}

}  // namespace

TEST_CASE("measure_result: hand-computed values") {
  const TypedTensor<float> d = floats({1.5F, -4, 0.25F, 2, 0});
  const TypedTensor<double> b = doubles({1, -4, 0.125, 2.5, 0});
  const ResultError e = measure_result(d.view(), b.view(), options());
  CHECK(e.count == 5);
  CHECK(e.finite_pairs == 5);
  CHECK(e.unequal == 3);
  CHECK(e.greater == 2);
  CHECK(e.less == 1);
  CHECK(e.small == 2);
  CHECK(e.small_errors == 1);
  CHECK(e.normal == 3);
  CHECK(e.normal_errors == 2);
  CHECK(e.result_zeros == 1);
  CHECK(e.reference_zeros == 1);
  CHECK(e.below_thousandth == 1);  // -4; without an epsilon 0 / 0 is no number
  CHECK(e.dot == Approx(1.5 + 16 + 0.25 * 0.125 + 5));
  CHECK(e.max_result == 4);
  CHECK(e.max_reference == 4);
  CHECK(e.max_absolute == 0.5);
  CHECK(e.max_absolute_index == 0);
  CHECK(e.squared_error == Approx(0.25 + 0.125 * 0.125 + 0.25));
  CHECK(e.normal_squared_error == Approx(0.5));
  CHECK(e.max_relative == Approx(0.5));
  CHECK(e.sum_relative == Approx(0.5 + 0.2));
  CHECK(e.max_ulp == 0x1p23);  // 0.25 next to 0.125
  CHECK(e.ulp_percentile_99 == e.max_ulp);
}

TEST_CASE("measure_result: what is not finite on one side") {
  const TypedTensor<float> d = floats({kNaN, kNaN, kInf, kInf, 1, -kInf, 3});
  const TypedTensor<double> b = doubles({kNaN, 1, kInf, 1e300, kNaN, kInf, 3});
  const ResultError e = measure_result(d.view(), b.view(), options());
  CHECK(e.finite_pairs == 1);
  CHECK(e.result_nan == 2);
  CHECK(e.result_infinite == 3);
  CHECK(e.reference_nan == 2);
  CHECK(e.reference_infinite == 2);
  // 1e300 is an infinity in float32: they agree. NaN and a number, -Inf and Inf do not.
  CHECK(e.non_finite_errors == 3);
  CHECK(e.max_absolute == 0);
  CHECK(e.dot == 9);
}

TEST_CASE("measure_result: an infinity next to the largest number of the dtype is no error") {
  const TypedTensor<float> d = floats({kInf, std::numeric_limits<float>::max()});
  const TypedTensor<double> b = doubles({std::numeric_limits<float>::max(), 1e39});
  CHECK(measure_result(d.view(), b.view(), options()).non_finite_errors == 0);
}

TEST_CASE("measure_result: bounds") {
  const TypedTensor<float> d = floats({1.5F, 2, 3});
  const TypedTensor<double> b = doubles({1, 2, 2});
  const TypedTensor<double> terms = doubles({10, 0, 1});
  ResultOptions with = options();
  CHECK(measure_result(d.view(), b.view(), with).max_excess == 0);  // there is no bound
  with.bound_constant = 0.5;
  CHECK(measure_result(d.view(), b.view(), with).max_excess == 2);
  CHECK(measure_result(d.view(), b.view(), with).max_excess_index == 2);
  with.bound_value = 0.25;
  CHECK(measure_result(d.view(), b.view(), with).max_excess == 1);
  with.bound_terms = 1;
  const TensorView view = terms.view();
  const ResultError e = measure_result(d.view(), b.view(), with, &view);
  CHECK(e.max_excess == 0.5);
  CHECK(e.max_bound == 10.75);
  with = options();
  with.bound_terms = 1;
  const TypedTensor<double> none = doubles({0, 0, 0});
  const TensorView of_none = none.view();
  CHECK(std::isinf(measure_result(d.view(), b.view(), with, &of_none).max_excess));
}

TEST_CASE("measure_result: integers are compared as they are") {
  const TypedTensor<std::int64_t> d = {{std::int64_t{1} << 60, (std::int64_t{1} << 60) + 1}, DType::kInt64};
  const TypedTensor<std::int64_t> b = {{std::int64_t{1} << 60, std::int64_t{1} << 60}, DType::kInt64};
  CHECK(measure_result(d.view(), b.view(), options()).unequal == 1);
}

TEST_CASE("measure_result: the exponent of a reference of 0 is the caller's choice") {
  const TypedTensor<float> d = floats({0x1p-20F});
  const TypedTensor<double> b = doubles({0});
  ResultOptions with = options();
  CHECK(measure_result(d.view(), b.view(), with).max_ulp == 0x1p-20 * 0x1p126 * 0x1p23);
  with.ulp_zero_exponent = 0;
  CHECK(measure_result(d.view(), b.view(), with).max_ulp == 8);
}

TEST_CASE("measure_result: percentile of many") {
  std::vector<float> d(10'000);
  std::vector<double> b(10'000, 1.0);
  for (std::size_t i = 0; i < d.size(); ++i) d[i] = 1 + (i < 200 ? 100 : 1) * 0x1p-23F;
  const ResultError e = measure_result(floats(d).view(), doubles(b).view(), options());
  CHECK(e.max_ulp == 100);
  CHECK(e.ulp_percentile_99 >= 100 * 0.99);
  for (std::size_t i = 50; i < 200; ++i) d[i] = 1 + 0x1p-23F;
  const ResultError few = measure_result(floats(d).view(), doubles(b).view(), options());
  CHECK(few.max_ulp == 100);
  CHECK(few.ulp_percentile_99 >= 1);
  CHECK(few.ulp_percentile_99 < 1.07);
}

TEST_CASE("measure_result: the same for every number of threads") {
  std::vector<float> d(200'003);
  std::vector<double> b(d.size());
  for (std::size_t i = 0; i < d.size(); ++i) {
    b[i] = std::sin(static_cast<double>(i));
    d[i] = static_cast<float>(b[i] + 1e-6 * std::cos(7.0 * static_cast<double>(i)));
  }
  ResultOptions with = options();
  with.bound_value = 1e-6;
  const ResultError alone = measure_result(floats(d).view(), doubles(b).view(), with);
  for (const unsigned threads : {2U, 3U}) {
    ThreadPool pool(threads);
    const ResultError e = measure_result(floats(d).view(), doubles(b).view(), with, nullptr, &pool);
    CHECK(e.dot == alone.dot);
    CHECK(e.squared_error == alone.squared_error);
    CHECK(e.sum_ulp == alone.sum_ulp);
    CHECK(e.max_absolute_index == alone.max_absolute_index);
    CHECK(e.max_excess_index == alone.max_excess_index);
    CHECK(e.ulp_percentile_99 == alone.ulp_percentile_99);
  }
}

TEST_CASE("measure_result: strides, no dimensions, no elements") {
  const std::vector<float> memory = {1, 2, 3, 4, 5, 6};
  const std::vector<std::int64_t> shape = {3, 2};
  const std::vector<std::int64_t> strides = {1, 3};
  const TensorView transposed = {memory.data(), DType::kFloat32, shape, strides};
  const std::vector<double> plain = {1, 4, 2, 5, 3, 7};
  const ResultError e = measure_result(transposed, {plain.data(), DType::kFloat64, shape, {}}, options());
  CHECK(e.unequal == 1);
  CHECK(e.max_absolute_index == 5);
  const float one = 1;
  const double two = 2;
  CHECK(measure_result({&one, DType::kFloat32, {}, {}}, {&two, DType::kFloat64, {}, {}}, options()).count ==
        1);
  CHECK(measure_result(floats({}).view(), doubles({}).view(), options()).count == 0);
}

TEST_CASE("measure_result: what cannot be compared") {
  CHECK_THROWS_AS(measure_result(floats({1}).view(), doubles({1, 2}).view(), options()), InvalidArgument);
  const TypedTensor<float> parts = {{1, 2}, DType::kComplex64, {1}};
  CHECK_THROWS_AS(measure_result(parts.view(), parts.view(), options()), UnsupportedError);
}

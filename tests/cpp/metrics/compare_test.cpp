// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "catch.h"
#include "metrics/float_tensor.h"
#include "msprobe/error.h"
#include "msprobe/metrics.h"

using namespace msprobe;
using metrics::Options;
using metrics::PairMetrics;
using test::FloatTensor;
using test::kInf;
using test::kNaN;

namespace {

// The tests that compare with NumPy are in tests/python/metrics; here is what needs no second opinion.

PairMetrics compare(const FloatTensor& target, const FloatTensor& reference) {
  return metrics::compare(target.view(), reference.view());
}

bool same(const PairMetrics& a, const PairMetrics& b) {
  return a.count == b.count && a.finite_pairs == b.finite_pairs && a.dot == b.dot &&
         a.squared_distance == b.squared_distance && a.target.sum == b.target.sum &&
         a.reference.squares == b.reference.squares && a.max_absolute == b.max_absolute &&
         a.max_relative == b.max_relative && a.max_absolute_index == b.max_absolute_index &&
         a.max_relative_index == b.max_relative_index && a.first_difference == b.first_difference &&
         a.equal_bits == b.equal_bits && a.below_thousandth == b.below_thousandth;
}

}  // namespace

TEST_CASE("compare: hand-computed values") {
  const PairMetrics m = compare(FloatTensor{{3, -4, 1, 2}}, FloatTensor{{3, 4, 0, 2.004F}});
  CHECK(m.count == 4);
  CHECK(m.finite_pairs == 4);
  CHECK(m.equal_bits == 1);
  CHECK(m.first_difference == 1);
  CHECK(m.dot == Approx(9 - 16 + 0 + 4.008));
  CHECK(m.squared_distance == Approx(64 + 1 + 1.6e-5));
  CHECK(m.max_absolute == 8);
  CHECK(m.max_absolute_index == 1);
  CHECK(m.max_relative == 0x1p52);  // 1 against 0
  CHECK(m.max_relative_index == 2);
  CHECK(m.below_thousandth == 1);
  CHECK(m.below_five_thousandths == 2);
  CHECK(m.relative_nan == 0);
  CHECK(m.target.sum == 2);
  CHECK(m.target.squares == 30);
  CHECK(m.target.min == -4.0);
  CHECK(m.target.max == 3.0);
  CHECK(m.reference.min == 0.0);
  CHECK(m.reference.max == 4.0);
}

TEST_CASE("compare: pairs with NaN or Inf are counted by what they are and otherwise left out") {
  const PairMetrics m = compare(FloatTensor{{1, kNaN, kInf, kInf, kNaN, 7, kInf, 2}},  //
                                FloatTensor{{2, kNaN, kInf, -kInf, kInf, kNaN, 1, 2}});
  CHECK(m.finite_pairs == 2);
  CHECK(m.both_non_finite == 4);
  CHECK(m.different_kind == 1);
  CHECK(m.one_sided == 2);
  CHECK(m.target.nan_count == 2);
  CHECK(m.target.inf_count == 3);
  CHECK(m.reference.nan_count == 2);
  CHECK(m.reference.inf_count == 3);
  CHECK(m.dot == 6);
  CHECK(m.target.sum == 3);
  CHECK(m.target.max == 2.0);  // neither Inf nor the 7 that stands against NaN
  CHECK(m.max_absolute == 1);
  CHECK(m.max_absolute_index == 0);
  CHECK(m.below_thousandth == 1);
}

TEST_CASE("compare: two zeros are no error, +0 and -0 differ in their bits alone") {
  const PairMetrics m = compare(FloatTensor{{0, 0}}, FloatTensor{{0, -0.0F}});
  CHECK(m.max_relative == 0);
  CHECK(m.below_thousandth == 2);
  CHECK_FALSE(m.max_relative_index);
  CHECK(m.first_difference == 1);
}

TEST_CASE("compare: float16 arithmetic loses the number that is added to zero") {
  const std::vector<std::uint16_t> target{0x0000, 0x3C00, 0x3C00};     // 0, 1, 1
  const std::vector<std::uint16_t> reference{0x0000, 0x0000, 0x3C00};  // 0, 0, 1
  const std::vector<std::int64_t> shape{3};
  const TensorView l{target.data(), DType::kFloat16, shape, {}};
  const TensorView r{reference.data(), DType::kFloat16, shape, {}};
  const PairMetrics plain = metrics::compare(l, r);
  CHECK(plain.max_relative == 0x1p52);
  CHECK(plain.relative_nan == 0);
  CHECK(plain.below_thousandth == 2);
  Options options;
  options.float16_arithmetic = true;
  const PairMetrics own = metrics::compare(l, r, options);
  CHECK(own.max_relative == std::numeric_limits<double>::infinity());
  CHECK(own.max_relative_index == 1);
  CHECK(own.relative_nan == 1);
  CHECK(own.below_thousandth == 1);
}

TEST_CASE("compare: complex errors are magnitudes, or those of the real parts on request") {
  const std::vector<float> target{1, 1, 2, 0};     // 1+i, 2
  const std::vector<float> reference{1, 5, 2, 0};  // 1+5i, 2
  const std::vector<std::int64_t> shape{2};
  const TensorView l{target.data(), DType::kComplex64, shape, {}};
  const TensorView r{reference.data(), DType::kComplex64, shape, {}};
  const PairMetrics m = metrics::compare(l, r);
  CHECK(m.max_absolute == 4);
  CHECK(m.max_relative == Approx(4 / std::sqrt(26.0)));
  CHECK(m.dot == 10);
  CHECK(m.reference.sum_imag == 5);
  CHECK_FALSE(m.target.min);
  CHECK(m.equal_bits == 1);
  Options options;
  options.real_part_only = true;
  const PairMetrics real = metrics::compare(l, r, options);
  CHECK(real.max_absolute == 0);
  CHECK(real.equal_bits == 2);
  CHECK(real.target.max == 2.0);
}

TEST_CASE("compare: an empty tensor has no errors, no extremes and no positions") {
  const PairMetrics m = compare(FloatTensor{}, FloatTensor{});
  CHECK(m.count == 0);
  CHECK(m.max_absolute == 0);
  CHECK_FALSE(m.target.min);
  CHECK_FALSE(m.first_difference);
}

TEST_CASE("compare: shapes must be the same") {
  const FloatTensor flat{{1, 2, 3, 4}};
  const FloatTensor square{{1, 2, 3, 4}, {2, 2}};
  CHECK_THROWS_AS(compare(flat, square), InvalidArgument);
  const std::vector<std::int64_t> negative{-1};
  const TensorView bad{nullptr, DType::kFloat32, negative, {}};
  CHECK_THROWS_AS(metrics::compare(bad, bad), InvalidArgument);
}

TEST_CASE("compare: positions are the first ones, wherever they lie") {
  constexpr std::size_t count = 3 * 65536 + 77;
  FloatTensor target{std::vector<float>(count, 1)};
  const FloatTensor reference = target;
  for (const std::size_t at : {std::size_t{0}, std::size_t{1023}, std::size_t{65536}, count - 1}) {
    target.values.assign(count, 1);
    target.values[at] = 3;
    target.values[count - 1] = 3;
    const PairMetrics m = compare(target, reference);
    CHECK(m.first_difference == static_cast<std::int64_t>(at));
    CHECK(m.max_absolute_index == static_cast<std::int64_t>(at));
    CHECK(m.max_relative_index == static_cast<std::int64_t>(at));
  }
}

TEST_CASE("compare: bit-equal for every number of threads") {
  constexpr std::size_t count = 4 * 65536 + 11;
  FloatTensor target{std::vector<float>(count)};
  FloatTensor reference{std::vector<float>(count)};
  for (std::size_t i = 0; i < count; ++i) {
    target.values[i] = std::sin(static_cast<float>(i));
    reference.values[i] = std::cos(1.01F * static_cast<float>(i));
  }
  target.values[100000] = kNaN;
  const PairMetrics one = compare(target, reference);
  for (const unsigned threads : {1U, 2U, 5U}) {
    ThreadPool pool(threads);
    CHECK(same(metrics::compare(target.view(), reference.view(), {}, &pool), one));
  }
}

TEST_CASE("append: a tensor in pieces has the positions and counts of the whole") {
  const FloatTensor target{{1, 2, 3, 9, 5, kNaN}};
  const FloatTensor reference{{1, 2, 3, 4, 7, 8}};
  PairMetrics whole;
  for (std::size_t i = 0; i < target.values.size(); i += 2) {
    append(whole, compare(FloatTensor{{target.values[i], target.values[i + 1]}},
                          FloatTensor{{reference.values[i], reference.values[i + 1]}}));
  }
  const PairMetrics at_once = compare(target, reference);
  CHECK(same(whole, at_once));  // small integers: sums are exact
  CHECK(whole.first_difference == 3);
  CHECK(whole.max_absolute_index == 3);
  CHECK(whole.one_sided == 1);
  CHECK(whole.reference.max == 7.0);
}

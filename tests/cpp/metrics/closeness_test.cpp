// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "catch.h"
#include "metrics/float_tensor.h"
#include "msprobe/metrics.h"
#include "msprobe/stats.h"
#include "msprobe/tensor_view.h"

using namespace msprobe;
using metrics::Distance;
using metrics::TensorFacts;
using test::kInf;
using test::kNaN;

namespace {

// What a dump of the existing tool says.
TensorFacts four(double max, double min, double mean, double norm, double count = 4) {
  TensorFacts facts;
  facts.dtype = DType::kFloat32;
  facts.count = count;
  facts.max = max;
  facts.min = min;
  facts.mean = mean;
  facts.norm = norm;
  return facts;
}

// What our own record says.
TensorFacts all_of(const std::vector<float>& values) {
  const std::vector<std::int64_t> shape{static_cast<std::int64_t>(values.size())};
  stats::SummaryOptions options;
  options.sketch = true;
  const stats::Summary s = stats::summarize({values.data(), DType::kFloat32, shape, {}}, options);
  TensorFacts facts = four(s.max.value_or(0), s.min.value_or(0), s.sketch->mean, s.sketch->norm,
                           static_cast<double>(values.size()));
  facts.is_exact = true;
  facts.sketch = s.sketch;
  facts.digest = s.sketch->digest;
  facts.non_finite = stats::NonFinite{s.nan_count, s.pos_inf_count, s.neg_inf_count};
  return facts;
}

std::vector<float> normal(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw;
  std::vector<float> values(count);
  for (float& one : values) one = draw(random);
  return values;
}

bool is_unmeasured(const Distance& distance) {
  return !distance.equal && std::isinf(distance.low) && std::isinf(distance.value);
}

bool is_sound(const Distance& distance) {
  return distance.low >= 0 && distance.low <= distance.value && distance.value <= distance.high;
}

}  // namespace

TEST_CASE("closeness: the unit roundoff is half of the dtype's machine epsilon") {
  CHECK(metrics::unit_roundoff(DType::kFloat64) == std::numeric_limits<double>::epsilon() / 2);
  CHECK(metrics::unit_roundoff(DType::kFloat32) == std::numeric_limits<float>::epsilon() / 2);
  CHECK(metrics::unit_roundoff(DType::kFloat16) == 0x1p-11);
  CHECK(metrics::unit_roundoff(DType::kBFloat16) == 0x1p-8);
  CHECK(metrics::unit_roundoff(DType::kFloat8E4M3FN) == 0x1p-4);
  CHECK(metrics::unit_roundoff(DType::kFloat8E5M2) == 0x1p-3);
  CHECK(metrics::unit_roundoff(DType::kComplex64) == metrics::unit_roundoff(DType::kFloat32));
  CHECK(metrics::unit_roundoff(DType::kComplex128) == metrics::unit_roundoff(DType::kFloat64));
  CHECK(metrics::unit_roundoff(DType::kComplex32) == metrics::unit_roundoff(DType::kFloat16));
  for (const DType dtype : {DType::kInt64, DType::kUInt8, DType::kBool})
    CHECK(metrics::unit_roundoff(dtype) == 0);
  CHECK(metrics::unit_roundoff(std::nullopt) == 0);
}

TEST_CASE("closeness: equal checksums are equal tensors, different ones are a difference") {
  TensorFacts a = four(2, -1, 0.5, 3), b = a;
  a.checksum = b.checksum = "00000001";
  b.mean = 0.6;  // summed in another order, or by another tool
  CHECK(metrics::distance(a, b).equal);
  CHECK(metrics::distance(a, b).high == 0);
  b.mean = a.mean;
  b.checksum = "00000002";
  const Distance other = metrics::distance(a, b);
  CHECK_FALSE(other.equal);
  CHECK(other.low == 0);
  CHECK(other.high > 0);
  b.checksum = a.checksum;
  b.dtype = DType::kFloat64;  // a checksum is of bytes
  b.max = 2.5;
  CHECK_FALSE(metrics::distance(a, b).equal);
}

TEST_CASE("closeness: checksums alone say that tensors differ, and nothing of how far") {
  TensorFacts a, b;
  a.dtype = b.dtype = DType::kFloat32;
  a.count = b.count = 4;
  CHECK(metrics::distance(a, b).equal);  // nothing was recorded of either
  a.checksum = b.checksum = "00000001";
  CHECK(metrics::distance(a, b).high == 0);
  b.checksum = "00000002";
  const Distance other = metrics::distance(a, b);
  CHECK_FALSE(other.equal);
  CHECK(other.low == 0);
  CHECK(std::isinf(other.high));
}

TEST_CASE("closeness: equal digests are equal tensors, whatever the sums of another device say") {
  const TensorFacts a = all_of(normal(1000, 1));
  TensorFacts b = a;
  b.mean = *b.mean * (1 + 1e-6);
  b.norm = *b.norm * (1 + 1e-6);
  for (double& sum : b.sketch->sums) sum *= 1 + 1e-6;
  const Distance same = metrics::distance(a, b);
  CHECK(same.equal);
  CHECK(same.high == 0);
  CHECK(same.bias == 0);
  b = a;
  b.digest = *a.digest + 1;
  const Distance other = metrics::distance(a, b);
  CHECK_FALSE(other.equal);
  CHECK(other.low == 0);
  CHECK(other.high > 0);
  b = a;
  b.dtype = DType::kInt32;  // a digest is of bits
  b.max = *b.max + 1;
  CHECK_FALSE(metrics::distance(a, b).equal);
}

TEST_CASE("closeness: what another order of summation makes of sums is not a difference that is certain") {
  const std::vector<float> values = normal(5000, 2);
  std::vector<float> other = values;
  other[7] = std::nextafter(other[7], 9.0F);
  const TensorFacts a = all_of(values);
  TensorFacts b = all_of(other);
  for (double& sum : b.sketch->sums) sum += 2 * 0x1p-24 * *a.norm / std::sqrt(8.0);
  b.sketch->norm *= 1 + 10 * 0x1p-24;
  b.sketch->mean += 10 * 0x1p-24 * *a.norm / std::sqrt(5000.0);
  const Distance apart = metrics::distance(a, b);
  CHECK_FALSE(apart.equal);
  CHECK(apart.low <= 0x1p-24);
  CHECK(apart.bias == 0);
  CHECK(apart.high < 1e-5);
}

TEST_CASE("closeness: extremes of 64 bits are rounded to float32 in files, those of 32 bits are not") {
  const auto low = [](DType dtype, double ulps) {
    TensorFacts a = all_of(normal(15, 4));
    a.dtype = dtype;
    TensorFacts b = a;
    b.digest = *a.digest + 1;
    b.max = *a.max + ulps * 0x1p-23;
    return metrics::distance(b, a).low;
  };
  CHECK(low(DType::kFloat64, 1) == 0);
  CHECK(low(DType::kFloat64, 8) > 0);
  CHECK(low(DType::kFloat32, 1) > 0);
  TensorFacts a = four(2, -1, 0.5, 3), b = a;
  a.dtype = b.dtype = DType::kFloat64;
  b.max = 2 + 0x1p-22;
  CHECK_FALSE(metrics::distance(a, b).may_be_equal);  // what differs when it is rounded did differ
}

TEST_CASE("closeness: sums are off by no more than a chain of 32 additions makes of them") {
  const TensorFacts a = all_of(normal(5000, 2));
  const auto apart_by = [&](double of_norm, double of_mean, double of_sums) {
    const double size = 0x1p-24 * a.sketch->norm;
    TensorFacts b = a;
    b.digest = *a.digest + 1;
    b.sketch->norm += of_norm * size;
    b.sketch->mean += of_mean * size / std::sqrt(5000.0);
    for (double& sum : b.sketch->sums) sum += of_sums * size / std::sqrt(8.0);
    return metrics::distance(a, b);
  };
  // In roundings of float32: 31 of two norms, twice as many of two means.
  CHECK(apart_by(28, 0, 0).bias == 0);
  CHECK(apart_by(34, 0, 0).bias > 0);
  CHECK(apart_by(0, 56, 0).bias == 0);
  CHECK(apart_by(0, 68, 0).bias > 0);
  // A sketch says at least 1 / 1.66 of what it estimates, less 8.
  CHECK(apart_by(0, 0, 12).low == 0);
  CHECK(apart_by(0, 0, 16).low > 0);
}

TEST_CASE(
    "closeness: sketches of two dtypes tell how far the values are apart, those of the first form do not") {
  const std::vector<float> values = normal(3000, 3);
  std::vector<float> rounded = values;
  for (float& value : rounded) value = std::ldexp(std::round(std::ldexp(value, 8)), -8);
  const TensorFacts a = all_of(values);
  TensorFacts b = all_of(rounded);
  b.dtype = DType::kBFloat16;
  const Distance apart = metrics::distance(b, a);
  CHECK(is_sound(apart));
  CHECK(apart.value == Approx(std::ldexp(1 / std::sqrt(12.0), -8)).epsilon(0.7));
  std::reverse(rounded.begin(), rounded.end());
  TensorFacts c = all_of(rounded);
  c.dtype = DType::kBFloat16;
  CHECK(metrics::distance(c, a).value > 1);
  c.digest.reset();
  CHECK(metrics::distance(c, a).value < 0.5);  // by the four statistics
}

TEST_CASE("closeness: different checksums over equal exact statistics are a difference") {
  TensorFacts a = all_of({1, 2, 3, 4});
  a.digest.reset();
  TensorFacts b = a;
  a.checksum = "00000001";
  b.checksum = "00000002";
  const Distance other = metrics::distance(a, b);
  CHECK_FALSE(other.equal);
  CHECK(other.high > 0);
}

TEST_CASE("closeness: equal statistics may hide a rounding of each element, equal sketches may not") {
  const TensorFacts bare = four(2, -1, 0.5, 3);
  CHECK(metrics::distance(bare, bare).equal);
  CHECK(metrics::distance(bare, bare).high == metrics::unit_roundoff(DType::kFloat32));
  const TensorFacts sketched = all_of(normal(100, 1));
  CHECK(metrics::distance(sketched, sketched).high == 0);
}

TEST_CASE("closeness: NaN and infinities are equal in the same number only") {
  const std::vector<float> clean = normal(64, 3);
  std::vector<float> one = clean, two = clean, infinite = clean;
  one[5] = kNaN;
  two[5] = two[6] = kNaN;
  infinite[5] = kInf;
  CHECK(metrics::distance(all_of(one), all_of(one)).equal);
  CHECK(is_unmeasured(metrics::distance(all_of(one), all_of(clean))));
  CHECK(is_unmeasured(metrics::distance(all_of(clean), all_of(one))));
  CHECK(is_unmeasured(metrics::distance(all_of(one), all_of(two))));
  CHECK(is_unmeasured(metrics::distance(all_of(one), all_of(infinite))));
  std::vector<float> negative = infinite;
  negative[5] = -kInf;
  CHECK(is_unmeasured(metrics::distance(all_of(infinite), all_of(negative))));
}

TEST_CASE("closeness: beside a NaN in both the other elements count") {
  std::vector<float> a = normal(256, 4), b = normal(256, 5);
  a[9] = b[9] = kNaN;
  const Distance apart = metrics::distance(all_of(a), all_of(b));
  CHECK_FALSE(apart.equal);
  CHECK(is_sound(apart));
  CHECK(apart.low > 0.5);
  CHECK(apart.value == Approx(std::sqrt(2)).epsilon(0.5));
  CHECK(std::isfinite(apart.high));
}

TEST_CASE("closeness: statistics that are NaN on both sides and nothing else leave everything open") {
  const TensorFacts nan = four(kNaN, kNaN, kNaN, kNaN);
  const Distance open = metrics::distance(nan, nan);
  CHECK(open.equal);
  CHECK(open.low == 0);
  CHECK(std::isinf(open.high));
  CHECK(is_unmeasured(metrics::distance(nan, four(1, 0, 0.5, 1))));
  CHECK(is_unmeasured(metrics::distance(four(kInf, 0, kInf, kInf), four(1, 0, 0.5, 1))));
}

TEST_CASE("closeness: what was not measured is held against nothing") {
  TensorFacts nothing;
  nothing.dtype = DType::kFloat32;
  nothing.count = 4;
  for (const Distance& apart :
       {metrics::distance(nothing, four(1, 0, 0.5, 1)), metrics::distance(four(1, 0, 0.5, 1), nothing),
        metrics::distance(nothing, all_of(normal(256, 4)))}) {
    CHECK(apart.equal);
    CHECK(apart.low == 0);
    CHECK(std::isinf(apart.high));
  }
}

TEST_CASE("closeness: integers and flags without a sketch are equal or are not") {
  TensorFacts a = four(3, 0, 1, 4), b = a;
  a.dtype = b.dtype = DType::kInt64;
  CHECK(metrics::distance(a, b).equal);
  b.mean = 1.25;
  CHECK(is_unmeasured(metrics::distance(a, b)));
}

TEST_CASE("closeness: what statistics say is a lower bound of the true distance") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const std::size_t count = 1 + random() % 300;
    const std::vector<float> a = normal(count, seed + 1000);
    std::vector<float> b = a;
    const float size = std::pow(10.0F, -static_cast<float>(random() % 7));
    for (float& one : b) {
      if (random() % 3 != 0) one += size * (static_cast<float>(random() % 2001) / 1000 - 1);
    }
    double difference = 0, norm_a = 0, norm_b = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const double apart = static_cast<double>(a[i]) - static_cast<double>(b[i]);
      difference += apart * apart;
      norm_a += static_cast<double>(a[i]) * static_cast<double>(a[i]);
      norm_b += static_cast<double>(b[i]) * static_cast<double>(b[i]);
    }
    const double truth = std::sqrt(difference / std::max(norm_a, norm_b));
    TensorFacts x = all_of(a), y = all_of(b);
    x.sketch.reset();
    y.sketch.reset();
    const Distance exact = metrics::distance(x, y);
    CAPTURE(seed, count, truth, exact.low, exact.high);
    CHECK(is_sound(exact));
    CHECK(exact.low <= truth * (1 + 1e-6) + 1e-12);
    CHECK(exact.bias <= truth * (1 + 1e-6) + 1e-12);
  }
}

TEST_CASE("closeness: a sketch estimates the distance, and its interval holds it") {
  int outside = 0;
  constexpr int kTrials = 400;
  for (unsigned seed = 0; seed < kTrials; ++seed) {
    const std::vector<float> a = normal(500, seed), noise = normal(500, seed + 5000);
    std::vector<float> b = a;
    for (std::size_t i = 0; i < b.size(); ++i) b[i] += 1e-3F * noise[i];
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
      norm += std::pow(static_cast<double>(a[i]), 2);
    }
    const double truth = std::sqrt(difference / norm);
    const Distance apart = metrics::distance(all_of(a), all_of(b));
    CHECK(is_sound(apart));
    if (truth < apart.low * 0.999 || truth > apart.high * 1.001) ++outside;
  }
  CHECK(outside <= kTrials / 50);  // 1 % are meant to be
}

TEST_CASE("closeness: a sketch sees a permutation and another sign, and which elements it was") {
  const std::vector<float> a = normal(1000, 7);
  std::vector<float> shuffled = a, negated = a, single = a;
  std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937(8));
  for (float& one : negated) one = -one;
  single[123] += 1;
  CHECK(metrics::distance(all_of(a), all_of(shuffled)).low > 0.5);
  CHECK(metrics::distance(all_of(a), all_of(negated)).low > 0.8);  // 2
  CHECK(metrics::distance(all_of(a), all_of(single)).peak == Approx(1));
  CHECK(metrics::distance_of_elements(all_of(a), all_of(single), 1, false).peak == Approx(1));
  CHECK(metrics::distance(all_of(a), all_of(shuffled)).peak < 0.98);
}

TEST_CASE("closeness: sketches that have run over measure nothing, and are never NaN") {
  // Masks of the smallest float32, of which a sum is infinite in a file.
  TensorFacts a = four(0, -3.4e38, -1.7e38, 1e40, 4096), b = a;
  a.is_exact = b.is_exact = true;
  a.sketch = stats::Sketch{
      .sums = {kInf, -kInf, 1, 2, 3, 4, 5, 6}, .min = 0, .max = 0, .mean = -1.7e38, .norm = 1e40};
  b.sketch = a.sketch;
  CHECK(metrics::distance(a, b).equal);
  b.sketch->sums[3] = 7;
  const Distance apart = metrics::distance(a, b);
  CHECK_FALSE(apart.equal);
  CHECK(is_sound(apart));
  b.sketch->sums[3] = kNaN;
  CHECK(is_sound(metrics::distance(a, b)));
  b.sketch->norm = a.sketch->norm = kInf;
  CHECK(is_sound(metrics::distance(a, b)));
  CHECK(is_sound(metrics::distance(b, a)));
}

TEST_CASE("closeness: below the floor there is nothing but rounding") {
  const TensorFacts a = four(2e-9, -1e-9, 1e-9, 3e-9), b = four(-2e-9, -4e-9, -3e-9, 6e-9);
  CHECK(metrics::distance(a, b).low > 0.1);
  CHECK(metrics::distance(a, b, 1.0).low < 1e-8);
}

TEST_CASE("closeness: numbers") {
  CHECK(metrics::distance_of_numbers(1.5, 1.5).equal);
  CHECK(metrics::distance_of_numbers(kNaN, kNaN).equal);
  CHECK(metrics::distance_of_numbers(kInf, kInf).equal);
  CHECK(is_unmeasured(metrics::distance_of_numbers(kInf, -kInf)));
  CHECK(is_unmeasured(metrics::distance_of_numbers(kNaN, 1)));
  const Distance apart = metrics::distance_of_numbers(0.75, 1.0);
  CHECK(apart.value == Approx(0.25));
  CHECK(apart.low == apart.high);
  CHECK(metrics::distance_of_numbers(0, 1e-300).value == 1);
}

TEST_CASE("closeness: elements that were compared one by one leave no doubt") {
  const TensorFacts a = all_of({1, 2, 3, 4});
  const Distance apart = metrics::distance_of_elements(a, a, 0.5, false);
  CHECK(apart.low == apart.high);
  CHECK(apart.value == Approx(0.5 / std::sqrt(30)));
  CHECK(metrics::distance_of_elements(a, a, 0, true).equal);
  CHECK(is_unmeasured(metrics::distance_of_elements(a, a, kNaN, false)));
}

TEST_CASE("closeness: a sketch that does not see its own tensor is not believed") {
  // 64 equal neighbours each, as the gradient of a mean over the last dimension: their signs cancel out.
  const std::vector<float> of_rows = normal(96, 5), of_others = normal(96, 6);
  std::vector<float> rows, others;
  for (std::size_t i = 0; i < of_rows.size(); ++i) {
    rows.insert(rows.end(), 64, of_rows[i]);
    others.insert(others.end(), 64, of_rows[i] + 0.01F * of_others[i]);
  }
  const Distance apart = distance(all_of(rows), all_of(others));
  CHECK(apart.high > 0.01);
  CHECK(apart.low < 0.015);
}

TEST_CASE("closeness: a record with a sketch beside one without is compared by what both say") {
  // The record of a device that has the four statistics alone, its sums added up in another order.
  const auto bare = [](const std::vector<float>& values, double of_norm = 0, double of_mean = 0) {
    TensorFacts facts = all_of(values);
    const double count = facts.count;
    facts.mean = static_cast<float>(facts.sketch->mean + of_mean * facts.sketch->norm / std::sqrt(count));
    facts.norm = static_cast<float>(facts.sketch->norm * (1 + of_norm));
    facts.is_exact = false;
    facts.sketch.reset();
    facts.digest.reset();
    facts.non_finite.reset();
    return facts;
  };
  const std::vector<float> values = normal(10'000, 1);
  const double unit = 0x1p-24;
  SECTION("equal data") {
    const Distance apart = metrics::distance(bare(values, 3 * unit, 3 * unit), all_of(values));
    CHECK(apart.may_be_equal);
    CHECK(apart.low == 0);
    CHECK(apart.bias == 0);
    CHECK_FALSE(apart.knows_bias);
    CHECK(is_sound(apart));
  }
  SECTION("sums over a tree of additions") {
    // 13.3 = log2(10'000) roundings of a sum; of two norms as many, of two means twice, and 2 in files.
    CHECK(metrics::distance(bare(values, 12 * unit, 20 * unit), all_of(values)).may_be_equal);
    CHECK_FALSE(metrics::distance(bare(values, 20 * unit), all_of(values)).may_be_equal);
    CHECK_FALSE(metrics::distance(bare(values, 0, 40 * unit), all_of(values)).may_be_equal);
  }
  SECTION("more than sums are off by") {
    const Distance apart = metrics::distance(bare(values, 1e-4), all_of(values));
    CHECK_FALSE(apart.may_be_equal);
    CHECK(apart.low == Approx(1e-4).epsilon(0.05));
  }
  SECTION("noise that leaves the extremes alone is not less than what it moves the norm by") {
    std::vector<float> rounded = values;
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    const float lowest = *low, highest = *high;
    for (float& one : rounded)
      if (one != lowest && one != highest) one *= 1 + 0x1p-9F * std::sin(1e6F * one);
    const double exact = metrics::distance(all_of(rounded), all_of(values)).value;
    CHECK(metrics::distance(bare(rounded), bare(values)).high > exact / 4);
  }
  SECTION("integers") {
    TensorFacts ours = bare(values), theirs = all_of(values);
    ours.dtype = theirs.dtype = DType::kInt64;
    CHECK(metrics::distance(ours, theirs).high < 1e-3);
    ours.norm = *ours.norm * 1.001;
    CHECK(is_unmeasured(metrics::distance(ours, theirs)));
  }
}

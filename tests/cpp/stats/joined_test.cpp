// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "catch.h"
#include "msprobe/stats.h"

using namespace msprobe;
using stats::Summary;

namespace {

constexpr std::int64_t kRows = 37, kColumns = 50;
constexpr std::array<std::int64_t, 2> kWhole{kRows, kColumns};

std::vector<float> normal(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> distribution(0.1F, 2);
  std::vector<float> values(count);
  for (float& value : values) value = distribution(random);
  return values;
}

// Rows and columns from `first` on, where a rank has them.
Summary part(const std::vector<float>& values, std::array<std::int64_t, 2> first,
             std::array<std::int64_t, 2> size) {
  static constexpr std::array<float, 2> kBounds{-1, 1};
  constexpr std::array<std::int64_t, 2> kStrides{kColumns, 1};
  stats::SummaryOptions options;
  options.sketch = true;
  options.powers = true;
  options.small = 0.5;
  options.bounds = kBounds;
  options.shard = {kWhole, first};
  return stats::summarize({values.data() + first[0] * kColumns + first[1], DType::kFloat32, size, kStrides},
                          options);
}

std::vector<Summary> grid(const std::vector<float>& values) {
  return {part(values, {0, 0}, {20, 30}), part(values, {0, 30}, {20, 20}), part(values, {20, 0}, {17, 30}),
          part(values, {20, 30}, {17, 20}), part(values, {0, 0}, {0, 30})};
}

}  // namespace

TEST_CASE("joined: shards in a grid are the whole") {
  auto values = normal(kRows * kColumns, 1);
  values[7] = 0;
  const Summary whole = part(values, {0, 0}, kWhole);
  auto parts = grid(values);
  const auto found = stats::joined(parts, kRows * kColumns);
  REQUIRE(found);
  CHECK(found->count == whole.count);
  CHECK(found->min == whole.min);
  CHECK(found->max == whole.max);
  CHECK(*found->mean == Approx(*whole.mean));
  CHECK(found->norm == Approx(whole.norm));
  CHECK(found->zero_count == 1);
  CHECK(found->sum == Approx(whole.sum));
  CHECK(*found->sum_abs == Approx(*whole.sum_abs));
  CHECK(*found->fourth_powers == Approx(*whole.fourth_powers));
  CHECK(found->small_count == whole.small_count);
  CHECK(found->interval_counts == whole.interval_counts);
  REQUIRE(found->sketch);
  CHECK(found->sketch->digest == whole.sketch->digest);
  CHECK(stats::distance(*found->sketch, *whole.sketch) < 1e-5 * whole.norm);
  CHECK(found->sketch->min == whole.sketch->min);
  CHECK(found->sketch->mean == Approx(whole.sketch->mean));
  CHECK(found->sketch->norm == Approx(whole.sketch->norm));

  std::ranges::reverse(parts);
  const auto other = stats::joined(parts, kRows * kColumns);
  CHECK(other->mean == found->mean);
  CHECK(other->norm == found->norm);
  CHECK(other->sketch->sums == found->sketch->sums);

  parts.pop_back();
  CHECK_FALSE(stats::joined(parts, kRows * kColumns));
  CHECK_FALSE(stats::joined({}, 0));
}

TEST_CASE("joined: one part without a sketch, elements that are not finite") {
  auto values = normal(kRows * kColumns, 2);
  values[3] = std::numeric_limits<float>::infinity();
  values[kColumns * 30] = std::numeric_limits<float>::quiet_NaN();
  const Summary whole = part(values, {0, 0}, kWhole);
  auto parts = grid(values);
  const auto found = stats::joined(parts, kRows * kColumns);
  CHECK(found->pos_inf_count == 1);
  CHECK(found->nan_count == 1);
  CHECK(std::isnan(*found->mean));
  CHECK(std::isnan(*found->max));
  CHECK(found->sketch->mean == Approx(whole.sketch->mean));
  CHECK(found->sketch->max == whole.sketch->max);
  CHECK(found->sketch->digest == whole.sketch->digest);
  parts[1].sketch.reset();
  CHECK_FALSE(stats::joined(parts, kRows * kColumns)->sketch);
}

TEST_CASE("joined: zeros behind the end, and integers") {
  std::vector<Summary> parts(2);
  parts[0].count = 3, parts[0].mean = 2.0 / 3, parts[0].norm = std::sqrt(2.0);
  parts[1].count = 3, parts[1].mean = 5.0 / 3, parts[1].norm = std::sqrt(17.0), parts[1].zero_count = 1;
  const auto padded = stats::joined(parts, 5, 1, true);
  CHECK(*padded->mean == 7.0 / 5);
  CHECK(padded->norm == std::sqrt(19.0));
  CHECK(padded->zero_count == 0);
  CHECK_FALSE(stats::joined(parts, 5));
}

TEST_CASE("joined: sums are rounded once, in any order") {
  const std::array<double, 5> sums{1e16, 1, -1e16, 1e-30, 1};
  std::vector<Summary> parts(sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) parts[i].count = 1, parts[i].mean = sums[i];
  CHECK(*stats::joined(parts, 5)->mean == 2.0 / 5);
  std::swap(parts[0], parts[3]);
  CHECK(*stats::joined(parts, 5)->mean == 2.0 / 5);
  // 2^53 + 1 lies in the middle of two numbers; the third decides.
  const std::array<double, 3> middle{9007199254740992, 1, 1e-20};
  parts.resize(3);
  for (std::size_t i = 0; i < 3; ++i) parts[i].mean = middle[i];
  CHECK(*stats::joined(parts, 3)->mean == 9007199254740994.0 / 3);
}

TEST_CASE("added up: mean and sums of summands, and the norm that these make likely") {
  const auto one = normal(kRows * kColumns, 3), other = normal(kRows * kColumns, 4);
  std::vector<float> both(one.size());
  for (std::size_t i = 0; i < one.size(); ++i) both[i] = one[i] + other[i];
  const Summary whole = part(both, {0, 0}, kWhole);
  std::vector<Summary> summands{part(one, {0, 0}, kWhole), part(other, {0, 0}, kWhole)};
  const auto found = stats::added_up(summands);
  REQUIRE(found);
  CHECK(*found->mean == Approx(*whole.mean));
  CHECK(stats::distance(*found->sketch, *whole.sketch) < 1e-5 * whole.norm);
  CHECK(found->norm > whole.norm / 2);
  CHECK(found->norm < whole.norm * 2);
  CHECK_FALSE(found->min);
  std::swap(summands[0], summands[1]);
  CHECK(stats::added_up(summands)->sketch->digest == found->sketch->digest);
  CHECK(stats::added_up({summands.data(), 1})->sketch->digest != found->sketch->digest);
  summands[1].sketch.reset();
  CHECK_FALSE(stats::added_up(summands));
}

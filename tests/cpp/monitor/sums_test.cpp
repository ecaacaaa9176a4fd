// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "catch.h"
#include "msprobe/monitor_frame.h"

using namespace msprobe;
using monitor::Sums;

namespace {

Sums measured_sums(const std::vector<float>& values, double eps = 1e-8) {
  const std::vector<std::int64_t> shape{static_cast<std::int64_t>(values.size())};
  stats::SummaryOptions options;
  options.powers = true;
  options.small = eps;
  return monitor::sums_of(stats::summarize({values.data(), DType::kFloat32, shape, {}}, options));
}

Sums through_collectives(const std::vector<Sums>& parts) {
  std::array<double, monitor::kSummed> added{};
  std::array<double, monitor::kExtremes> largest;
  largest.fill(-std::numeric_limits<double>::infinity());
  for (const Sums& part : parts) {
    std::array<double, monitor::kSummed> summed{};
    std::array<double, monitor::kExtremes> extremes{};
    monitor::pack(part, summed, extremes);
    for (std::size_t i = 0; i < summed.size(); ++i) added[i] += summed[i];
    for (std::size_t i = 0; i < extremes.size(); ++i) largest[i] = std::max(largest[i], extremes[i]);
  }
  return monitor::unpack(added, largest);
}

}  // namespace

TEST_CASE("monitor: sums of a few values") {
  const Sums s = measured_sums({3, -4, 0, 1e-9F, 12});
  CHECK(s.count == 5);
  CHECK(s.zeros == 1);
  CHECK(s.small == 2);
  CHECK(s.sum == Approx(11));
  CHECK(s.absolute == Approx(19));
  CHECK(s.squares == Approx(169));
  CHECK(s.fourth == Approx(81 + 256 + 20736));
  CHECK(s.min == -4);
  CHECK(s.max == 12);
}

TEST_CASE("monitor: pieces merge to the sums of the whole") {
  std::vector<float> whole;
  for (int i = 0; i < 1000; ++i) whole.push_back(std::sin(static_cast<float>(i)));
  const Sums expected = measured_sums(whole);
  const Sums first = measured_sums({whole.begin(), whole.begin() + 300});
  const Sums second = measured_sums({whole.begin() + 300, whole.end()});
  const Sums nothing;
  Sums merged = first;
  merge(merged, second);
  merge(merged, nothing);
  for (const Sums& s : {merged, through_collectives({first, nothing, second})}) {
    CHECK(s.count == expected.count);
    CHECK(s.zeros == expected.zeros);
    CHECK(s.small == expected.small);
    CHECK(s.min == expected.min);
    CHECK(s.max == expected.max);
    CHECK(s.sum == Approx(expected.sum).margin(1e-4));  // added in another order
    CHECK(s.absolute == Approx(expected.absolute));
    CHECK(s.squares == Approx(expected.squares));
    CHECK(s.fourth == Approx(expected.fourth));
  }
}

TEST_CASE("monitor: one NaN of a piece is in the whole") {
  const Sums bad = measured_sums({1, std::numeric_limits<float>::quiet_NaN()});
  const Sums good = measured_sums({2, 3});
  for (const Sums& s : {through_collectives({good, bad}), through_collectives({bad, good})}) {
    CHECK(s.nan == 1);
    CHECK(s.count == 4);
    CHECK(std::isnan(s.min));
    CHECK(std::isnan(s.max));
    CHECK(std::isnan(s.squares));
  }
  Sums merged = good;
  merge(merged, bad);
  CHECK(std::isnan(merged.max));
}

TEST_CASE("monitor: an infinity is the largest value, not a NaN") {
  const float infinity = std::numeric_limits<float>::infinity();
  const Sums s = through_collectives({measured_sums({1, infinity}), measured_sums({-infinity, 2})});
  CHECK(s.inf == 2);
  CHECK(s.nan == 0);
  CHECK(s.max == infinity);
  CHECK(s.min == -infinity);
  CHECK(std::isinf(s.squares));
}

TEST_CASE("monitor: nothing packs to nothing") { CHECK(through_collectives({Sums{}, Sums{}}) == Sums{}); }

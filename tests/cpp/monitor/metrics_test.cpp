// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/non_finite.h"
#include "catch.h"
#include "msprobe/monitor_frame.h"

using namespace msprobe;
using monitor::Kind;
using monitor::Row;

namespace {

Row measured_row(const std::vector<float>& values) {
  const std::vector<std::int64_t> shape{static_cast<std::int64_t>(values.size())};
  stats::SummaryOptions options;
  options.powers = true;
  options.small = 1e-8;
  Row row;
  row.sums = monitor::sums_of(stats::summarize({values.data(), DType::kFloat32, shape, {}}, options));
  return row;
}

Row pair_of(const std::vector<float>& left, const std::vector<float>& right) {
  const std::vector<std::int64_t> shape{static_cast<std::int64_t>(left.size())};
  const stats::Pair pair{{left.data(), DType::kFloat32, shape, {}},
                         {right.data(), DType::kFloat32, shape, {}}};
  Row row;
  row.kind = Kind::kPair;
  row.sums = monitor::sums_of(stats::pair_sums({&pair, 1}).front());
  return row;
}

Row counts_of(std::vector<double> counts) {
  Row row;
  row.kind = Kind::kCounts;
  row.counts = std::move(counts);
  return row;
}

double metric(const char* name, const Row& row) { return monitor::find_metric(row.kind, name)->value(row); }

}  // namespace

TEST_CASE("monitor: every metric of a tensor by hand") {
  const Row s = measured_row({3, -4, 0, 0, 1});
  CHECK(metric("min", s) == -4);
  CHECK(metric("max", s) == 3);
  CHECK(metric("mean", s) == 0);
  CHECK(metric("norm", s) == Approx(std::sqrt(26.0)));
  CHECK(metric("nans", s) == 0);
  CHECK(metric("zeros", s) == Approx(0.4));
  CHECK(metric("rms", s) == Approx(std::sqrt(26.0 / 5)));
  CHECK(metric("abs_mean", s) == Approx(8.0 / 5));
  CHECK(metric("abs_max", s) == 4);
  CHECK(metric("std", s) == Approx(std::sqrt(26.0 / 5)));
  CHECK(metric("kurtosis", s) == Approx(5.0 * (81 + 256 + 1) / (26.0 * 26.0)));
  CHECK(metric("infs", s) == 0);
  CHECK(metric("nonfinite", s) == 0);
  CHECK(metric("numel", s) == 5);
}

TEST_CASE("monitor: a single outlier among n elements has kurtosis n") {
  std::vector<float> values(1000, 0.0F);
  values[17] = 1e20F;
  CHECK(metric("kurtosis", measured_row(values)) == Approx(1000));
}

TEST_CASE("monitor: metrics of nothing are NaN, but for counts") {
  const Row none;
  for (const monitor::Metric& m : monitor::metrics()) {
    INFO(std::string(m.name));
    if (m.integral || m.name == "norm") {
      CHECK(m.value(none) == 0);
    } else {
      CHECK(std::isnan(m.value(none)));
    }
  }
}

TEST_CASE("monitor: NaN and infinities are counted where other metrics are NaN") {
  const Row s = measured_row({1, static_cast<float>(kNaN), std::numeric_limits<float>::infinity(), 0});
  CHECK(metric("nans", s) == 1);
  CHECK(metric("infs", s) == 1);
  CHECK(metric("nonfinite", s) == 0.5);
  CHECK(metric("zeros", s) == 0.25);
  for (const char* name : {"min", "max", "mean", "norm", "rms", "abs_max", "abs_mean", "kurtosis", "std"}) {
    CHECK(std::isnan(metric(name, s)));
  }
}

TEST_CASE("monitor: every metric of a pair by hand") {
  const Row row = pair_of({3, -4, 0, 1}, {3, 4, 2, -1});
  CHECK(metric("distance", row) == Approx(std::sqrt(64.0 + 4 + 4)));
  CHECK(metric("ratio", row) == Approx(std::sqrt(72.0 / 26)));
  CHECK(metric("cosine", row) == Approx((9.0 - 16 - 1) / std::sqrt(26.0 * 30)));
  CHECK(metric("agreement", row) == Approx(((1.0 - 1 - 1) / 4 + 1) / 2));
}

TEST_CASE("monitor: pairs with zeros have no direction") {
  CHECK(std::isnan(metric("cosine", pair_of({0, 0}, {1, 2}))));
  CHECK(std::isnan(metric("ratio", pair_of({0, 0}, {1, 2}))));
  CHECK(metric("agreement", pair_of({0, 0}, {1, 2})) == 0.5);
}

TEST_CASE("monitor: every metric of counts by hand") {
  const Row row = counts_of({4, 0, 2, 2});
  CHECK(metric("largest", row) == 2);
  CHECK(metric("smallest", row) == 0);
  CHECK(metric("median", row) == 1);
  CHECK(metric("p10", row) == Approx(0.3));
  CHECK(metric("p90", row) == Approx(1.7));
  CHECK(metric("dead", row) == 0.25);
  CHECK(metric("dropped", row) == Approx(1.5 / 8));
  CHECK(metric("entropy", row) == Approx((0.5 * std::log(2) + 0.5 * std::log(4)) / std::log(4)));
}

TEST_CASE("monitor: equal counts have entropy 1, a single one has 0") {
  CHECK(metric("entropy", counts_of({5, 5, 5})) == Approx(1));
  CHECK(metric("entropy", counts_of({5, 0, 0})) == Approx(0));
  CHECK(std::isnan(metric("entropy", counts_of({0, 0, 0}))));
  CHECK(std::isnan(metric("largest", counts_of({0, 0, 0}))));
  CHECK(metric("dead", counts_of({0, 0, 0})) == 1);
}

TEST_CASE("monitor: rows merge") {
  Row whole = counts_of({1, 2});
  merge(whole, counts_of({0, 3, 4}));
  CHECK(whole.counts == std::vector<double>{1, 5, 4});
  Row pair = pair_of({3, -4}, {3, 4});
  merge(pair, pair_of({0, 1}, {2, -1}));
  CHECK(pair.sums == pair_of({3, -4, 0, 1}, {3, 4, 2, -1}).sums);
}

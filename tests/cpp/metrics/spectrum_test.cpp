// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "catch.h"
#include "msprobe/error.h"
#include "msprobe/metrics.h"

using namespace msprobe;
using metrics::spectrum;
using metrics::Spectrum;

namespace {

using Shape = std::vector<std::int64_t>;

Spectrum of(const std::vector<float>& values, const Shape& shape, const Shape& strides = {}) {
  return spectrum({values.data(), DType::kFloat32, shape, strides});
}

// Random enough, and the same everywhere.
std::vector<float> waves(std::size_t count) {
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(std::sin(static_cast<float>(i * i % 1009)));
  return values;
}

}  // namespace

TEST_CASE("spectrum: a diagonal matrix has its entries as singular values") {
  const Spectrum s = of({3, 0, 0, 0, -4, 0}, {2, 3});
  CHECK(s.spectral_norm == Approx(4));
  CHECK(s.stable_rank == Approx(25.0 / 16));
}

TEST_CASE("spectrum: a matrix of rank one has stable rank one") {
  std::vector<float> values;
  for (int i = 0; i < 50; ++i) {
    for (int k = 0; k < 30; ++k) values.push_back(static_cast<float>((i + 1) * (k - 7)));
  }
  const Spectrum s = of(values, {50, 30});
  CHECK(s.stable_rank == Approx(1));
}

TEST_CASE(
    "spectrum: a matrix and its transposed are the same, wide or tall, by all eigenvalues or the largest") {
  for (const std::int64_t rows : {7, 100, 600}) {
    const std::int64_t columns = 640;
    const std::vector<float> values = waves(static_cast<std::size_t>(rows * columns));
    const Spectrum a = of(values, {rows, columns});
    const Spectrum b = of(values, {columns, rows}, {1, columns});
    CHECK(a.spectral_norm == Approx(b.spectral_norm).epsilon(1e-9));
    CHECK(a.stable_rank == Approx(b.stable_rank).epsilon(1e-9));
    CHECK(a.stable_rank >= 1);
    CHECK(a.stable_rank <= static_cast<double>(rows));
  }
}

TEST_CASE("spectrum: sizes at the ends of the range of float") {
  CHECK(of({3e30F, 0, 0, 4e30F}, {2, 2}).spectral_norm == Approx(4e30));
  CHECK(of({3e-30F, 0, 0, 4e-30F}, {2, 2}).stable_rank == Approx(25.0 / 16));
}

TEST_CASE("spectrum: zeros have no rank, and NaN stays NaN") {
  CHECK(of({0, 0, 0, 0}, {2, 2}).spectral_norm == 0);
  CHECK(std::isnan(of({0, 0, 0, 0}, {2, 2}).stable_rank));
  CHECK(std::isnan(of({1, std::numeric_limits<float>::quiet_NaN(), 1, 1}, {2, 2}).spectral_norm));
}

TEST_CASE("spectrum: what is no matrix is refused") {
  CHECK_THROWS_AS(of({1, 2}, {2}), InvalidArgument);
  CHECK_THROWS_AS(of({}, {0, 2}), InvalidArgument);
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  const Shape shape{2, 3};
  CHECK_THROWS_AS(metrics::spectrum_of_gram({values.data(), DType::kFloat32, shape, {}}), InvalidArgument);
}

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "catch.h"
#include "msprobe/error.h"
#include "msprobe/replay.h"

using namespace msprobe;
using replay::draw;
using replay::Statistics;

namespace {

std::vector<double> drawn(const Statistics& statistics, std::size_t count, std::uint64_t seed = 1) {
  std::vector<double> numbers(count);
  draw(statistics, seed, numbers);
  return numbers;
}

double mean_of(const std::vector<double>& numbers) {
  double sum = 0;
  for (const double x : numbers) sum += x;
  return sum / static_cast<double>(numbers.size());
}

double norm_of(const std::vector<double>& numbers) {
  double squares = 0;
  for (const double x : numbers) squares += x * x;
  return std::sqrt(squares);
}

}  // namespace

TEST_CASE("draw: minimum, maximum, mean and norm hold") {
  for (const double mean : {-0.9, -0.2, 0.0, 0.5, 1.9}) {
    for (const double deviation : {0.01, 0.1, 0.5, 0.9}) {
      const std::size_t count = 4000;
      // A variance beyond those of numbers in [-1, 2], and one that -1 and 2 exceed alone, cannot be had.
      const double ends = ((mean + 1) * (mean + 1) + (2 - mean) * (2 - mean)) / count;
      if (deviation * deviation > 0.9 * (mean + 1) * (2 - mean) || deviation * deviation < ends) continue;
      const double norm = std::sqrt(count * (deviation * deviation + mean * mean));
      const std::vector<double> numbers = drawn({-1, 2, mean, norm}, count);
      INFO("mean " << mean << ", deviation " << deviation);
      CHECK(numbers.front() == -1);
      CHECK(numbers.back() == 2);
      CHECK(*std::min_element(numbers.begin(), numbers.end()) == -1);
      CHECK(*std::max_element(numbers.begin(), numbers.end()) == 2);
      CHECK(mean_of(numbers) == Approx(mean).margin(1e-5));
      CHECK(norm_of(numbers) == Approx(norm).epsilon(1e-4));
    }
  }
}

TEST_CASE("draw: without a mean or a norm the range is filled evenly") {
  const std::vector<double> numbers = drawn({0, 10, std::nullopt, 5.0}, 10'000);
  CHECK(mean_of(numbers) == Approx(5).margin(0.2));
  CHECK(std::count_if(numbers.begin(), numbers.end(), [](double x) { return x < 1; }) > 800);
}

TEST_CASE("draw: the same for the same seed") {
  CHECK(drawn({0, 1, 0.3, 6.0}, 100, 7) == drawn({0, 1, 0.3, 6.0}, 100, 7));
  CHECK(drawn({0, 1, 0.3, 6.0}, 100, 7) != drawn({0, 1, 0.3, 6.0}, 100, 8));
}

TEST_CASE("draw: few numbers") {
  CHECK(drawn({1, 1, 1.0, 1.0}, 1) == std::vector<double>{1});
  CHECK(drawn({0, 4, 3.0, 3.0}, 1) == std::vector<double>{3});
  CHECK(drawn({0, 4, std::nullopt, std::nullopt}, 1) == std::vector<double>{4});
  CHECK(drawn({0, 4, 2.0, 4.0}, 2) == std::vector<double>{0, 4});
  CHECK(drawn({2, 2, 2.0, 4.0}, 4) == std::vector<double>{2, 2, 2, 2});
  CHECK(drawn({0, 1, 0.5, 1.0}, 0).empty());
}

TEST_CASE("draw: statistics that no numbers have give numbers of the range") {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kMost = std::numeric_limits<double>::max();
  for (const Statistics& statistics :
       {Statistics{0, 1, 7.0, 1.0}, Statistics{0, 1, 0.5, 0.0}, Statistics{0, 1, -3.0, kMost},
        Statistics{0, 1, kNaN, kNaN}, Statistics{0, 1, kInf, kInf}, Statistics{-kMost, kMost, 0.0, kInf},
        Statistics{-kMost, kMost, 0.0, 1.0}, Statistics{0, 5e-324, 0.0, 0.0}}) {
    for (const double x : drawn(statistics, 50)) {
      CHECK(x >= statistics.min);
      CHECK(x <= statistics.max);
    }
  }
}

TEST_CASE("draw: bounds that are none") {
  std::vector<double> numbers(3);
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  for (const Statistics& statistics :
       {Statistics{1, 0, 0.5, 1.0}, Statistics{0, INFINITY, 0.5, 1.0}, Statistics{kNaN, 1, 0.5, 1.0}}) {
    CHECK_THROWS_AS(draw(statistics, 1, numbers), InvalidArgument);
  }
}

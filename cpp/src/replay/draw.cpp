// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "msprobe/error.h"
#include "msprobe/replay.h"

namespace msprobe::replay {
namespace {

constexpr int kMostSteps = 12;        // of Newton's method
constexpr int kMostCorrections = 12;  // each is one pass over the numbers
constexpr double kEnough = 1e-5;      // what is left when the passes are over
constexpr double kAccuracy = 1e-7;    // of mean and deviation, relative to the range

// splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : state_(seed) {}

  // In (0, 1).
  double uniform() { return (static_cast<double>(next() >> 11) + 0.5) * 0x1p-53; }

  // By the method of Box and Muller, which gives two at a time.
  double normal() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    const double radius = std::sqrt(-2 * std::log(uniform()));
    const double angle = 2 * std::numbers::pi * uniform();
    spare_ = radius * std::sin(angle);
    has_spare_ = true;
    return radius * std::cos(angle);
  }

 private:
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }

  std::uint64_t state_;
  double spare_ = 0;
  bool has_spare_ = false;
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// Mean and deviation of numbers between 0 and 1.
struct Moments {
  double mean = 0.5;
  double deviation = 0;
};

Moments moments_of(std::span<const double> numbers) {
  const auto count = static_cast<double>(numbers.size());
  double sum = 0;
  for (const double x : numbers) sum += x;
  const double mean = sum / count;
  double squares = 0;
  for (const double x : numbers) squares += (x - mean) * (x - mean);
  return {mean, std::sqrt(squares / count)};
}

// The numbers are sigmoid(center + spread * normal).
struct LogisticNormal {
  double center = 0;
  double spread = 0;
};

// The distribution of these moments, by Newton's method on evenly spaced quantiles; roughly where the moments
// are extreme, which the correction of the numbers evens out.
LogisticNormal distribution_of(const Moments& wanted) {
  // Normal quantiles at (k + 1/2) / 16 for k = 8 ... 15; the others by symmetry.
  constexpr std::array<double, 8> kUpper = {0.0784124127331122, 0.2372021093287875, 0.4022500653217251,
                                            0.5791321622555561, 0.7764217611479276, 1.0099901692495823,
                                            1.3180108973035372, 1.8627318674216511};
  const double edge = 1e-12;
  const double mean = std::clamp(wanted.mean, edge, 1 - edge);
  LogisticNormal found{std::log(mean / (1 - mean)), wanted.deviation / (mean * (1 - mean))};
  found.spread = std::clamp(found.spread, 1e-9, 12.0);
  const double variance = wanted.deviation * wanted.deviation;
  for (int step = 0; step < kMostSteps; ++step) {
    // Sums over the quantiles of s, its square and the derivatives to center and spread.
    double s1 = 0, s2 = 0, c1 = 0, c2 = 0, p1 = 0, p2 = 0;
    for (const double upper : kUpper) {
      for (const double q : {-upper, upper}) {
        const double s = sigmoid(found.center + found.spread * q);
        const double slope = s * (1 - s);
        s1 += s;
        s2 += s * s;
        c1 += slope;
        c2 += s * slope;
        p1 += q * slope;
        p2 += q * s * slope;
      }
    }
    constexpr double kCount = 2 * kUpper.size();
    for (double* sum : {&s1, &s2, &c1, &c2, &p1, &p2}) *sum /= kCount;
    const double mean_error = s1 - mean;
    const double variance_error = s2 - s1 * s1 - variance;
    const double c_variance = 2 * (c2 - s1 * c1);
    const double p_variance = 2 * (p2 - s1 * p1);
    const double determinant = c1 * p_variance - p1 * c_variance;
    if (!(std::abs(determinant) > 1e-300)) break;
    const double by_center = (mean_error * p_variance - p1 * variance_error) / determinant;
    const double by_spread = (c1 * variance_error - c_variance * mean_error) / determinant;
    found.center -= std::clamp(by_center, -2.0, 2.0);
    found.spread = std::clamp(found.spread - by_spread, found.spread / 4, found.spread * 4 + 1e-9);
    if (std::abs(by_center) < 1e-6 && std::abs(by_spread) < 1e-6 * found.spread) break;
  }
  if (!std::isfinite(found.center) || !std::isfinite(found.spread)) return {0, 1};
  return found;
}

bool is_close(const Moments& a, const Moments& b, double accuracy) {
  return std::abs(a.mean - b.mean) < accuracy && std::abs(a.deviation - b.deviation) < accuracy;
}

// Moves and stretches the numbers until they have these moments, without leaving [0, 1]. False: they do not
// come close.
bool correct(std::span<double> numbers, const Moments& wanted) {
  for (int pass = 0; pass < kMostCorrections; ++pass) {
    const Moments now = moments_of(numbers);
    if (is_close(now, wanted, kAccuracy)) return true;
    const double stretch = now.deviation > 0 ? wanted.deviation / now.deviation : 0;
    for (double& x : numbers) x = std::clamp(wanted.mean + (x - now.mean) * stretch, 0.0, 1.0);
  }
  return is_close(moments_of(numbers), wanted, kEnough);
}

// Moments of the numbers between the first and the last, relative to the range; nothing where the record does
// not say.
std::optional<Moments> moments_between(const Statistics& s, double count) {
  if (!s.mean || !s.norm || !std::isfinite(*s.mean) || !std::isfinite(*s.norm)) return std::nullopt;
  const double range = s.max - s.min;
  const double between = count - 2;
  // Of x - min, so that a small range far from zero loses no digits that the record has.
  const double sum = count * (*s.mean - s.min) - range;
  const double squares = *s.norm * *s.norm - s.min * (2 * count * *s.mean - count * s.min) - range * range;
  if (!std::isfinite(range) || !std::isfinite(sum) || !std::isfinite(squares)) return std::nullopt;
  Moments result;
  result.mean = std::clamp(sum / between / range, 0.0, 1.0);
  const double variance = squares / between / range / range - result.mean * result.mean;
  result.deviation = std::sqrt(std::clamp(variance, 0.0, result.mean * (1 - result.mean)));
  return result;
}

// Zeros and ones, and one number between, of this sum.
void draw_two_values(double sum, Generator& generator, std::span<double> numbers) {
  auto ones = static_cast<double>(std::floor(sum));
  auto left = static_cast<double>(numbers.size());
  double rest = sum - ones;
  for (double& x : numbers) {
    const bool is_one = generator.uniform() * left < ones;
    x = is_one ? 1 : 0;
    ones -= x;
    left -= 1;
    if (!is_one && rest > 0) {
      x = rest;
      rest = 0;
    }
  }
}

void draw_between(const Statistics& s, Generator& generator, std::span<double> out, double count) {
  const std::optional<Moments> wanted = moments_between(s, count);
  if (!wanted) {
    for (double& x : out) x = generator.uniform();
    return;
  }
  const LogisticNormal distribution = distribution_of(*wanted);
  for (double& x : out) x = sigmoid(distribution.center + distribution.spread * generator.normal());
  if (correct(out, *wanted)) return;
  // Moments close to those of zeros and ones: such numbers, drawn together, have them.
  draw_two_values(wanted->mean * static_cast<double>(out.size()), generator, out);
  const Moments now = moments_of(out);
  const double stretch = now.deviation > 0 ? std::min(1.0, wanted->deviation / now.deviation) : 0;
  for (double& x : out) x = now.mean + (x - now.mean) * stretch;
}

}  // namespace

void draw(const Statistics& statistics, std::uint64_t seed, std::span<double> out) {
  const auto [min, max, mean, norm] = statistics;
  if (!std::isfinite(min) || !std::isfinite(max) || min > max) {
    throw InvalidArgument("draw: expected finite bounds in order, found " + std::to_string(min) + " and " +
                          std::to_string(max));
  }
  if (out.empty()) return;
  if (out.size() == 1) {
    out[0] = mean && std::isfinite(*mean) ? std::clamp(*mean, min, max) : max;
    return;
  }
  Generator generator(seed);
  const std::span<double> between = out.subspan(1, out.size() - 2);
  if (min < max && !between.empty()) {
    draw_between(statistics, generator, between, static_cast<double>(out.size()));
    // No difference of the bounds: it may overflow.
    for (double& x : between) x = std::clamp((1 - x) * min + x * max, min, max);
  } else {
    std::fill(between.begin(), between.end(), min);
  }
  out.front() = min;
  out.back() = max;
}

}  // namespace msprobe::replay

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/expected.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/samples.h"

namespace msprobe::bench {
namespace {

// RFC 1952, section 8, bit by bit.
std::uint32_t crc32(const void* data, std::size_t bytes) {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    table[i] = i;
    for (int bit = 0; bit < 8; ++bit) table[i] = (table[i] >> 1) ^ ((table[i] & 1) != 0 ? 0xEDB88320U : 0);
  }
  std::uint32_t crc = 0xFFFFFFFFU;
  const auto* byte = static_cast<const std::uint8_t*>(data);
  for (std::size_t i = 0; i < bytes; ++i) crc = (crc >> 8) ^ table[(crc ^ byte[i]) & 0xFF];
  return ~crc;
}

void expect(bool good, DType dtype, const char* what) {
  if (!good) {
    throw std::runtime_error("the result for " + std::string(dtype_name(dtype)) +
                             " is something else than that of element-by-element code: " + what);
  }
}

bool near(double found, double wanted, double tolerance) {
  return std::fabs(found - wanted) <= tolerance * std::max(std::fabs(wanted), 1e-300);
}

}  // namespace

void check(const TensorView& view, const stats::Summary& summary, std::span<const float> bounds,
           std::span<const std::uint8_t> signs) {
  const auto count = static_cast<std::size_t>(element_count(view));
  double min = std::numeric_limits<double>::infinity();
  double max = -min;
  long double sum = 0;
  long double absolute = 0;
  long double squares = 0;
  std::int64_t zeros = 0;
  bool same_signs = true;
  std::vector<std::int64_t> intervals(bounds.size() + 1);
  std::vector<float> as_float(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double x = element(view.data, view.dtype, i);
    min = std::min(min, x);
    max = std::max(max, x);
    sum += x;
    absolute += std::fabs(x);
    squares += static_cast<long double>(x) * x;
    zeros += x == 0;
    ++intervals[static_cast<std::size_t>(std::lower_bound(bounds.begin(), bounds.end(), x) - bounds.begin())];
    if (!signs.empty()) same_signs &= ((signs[i / 8] >> (i % 8)) & 1) == (x > 0 ? 1 : 0);
    as_float[i] = static_cast<float>(x);
  }
  const auto n = static_cast<long double>(count);
  expect(summary.count == static_cast<std::int64_t>(count), view.dtype, "count");
  expect(summary.min == min && summary.max == max, view.dtype, "min or max");
  // The mean of numbers around zero cancels: what counts is its error next to the size of the numbers.
  expect(summary.mean && std::fabs(static_cast<double>(*summary.mean - sum / n)) <=
                             1e-6 * static_cast<double>(absolute / n),
         view.dtype, "mean");
  expect(near(summary.norm, static_cast<double>(std::sqrt(squares)), 1e-6), view.dtype, "norm");
  expect(summary.zero_count == zeros, view.dtype, "zero_count");
  expect(summary.nan_count == 0 && summary.pos_inf_count == 0 && summary.neg_inf_count == 0, view.dtype,
         "counts of NaN and Inf");
  expect(bounds.empty() || summary.interval_counts == intervals, view.dtype, "interval_counts");
  expect(same_signs, view.dtype, "signs");
  if (summary.crc32) {
    const std::uint32_t native = crc32(view.data, count * element_size(view.dtype));
    const std::uint32_t converted = crc32(as_float.data(), count * sizeof(float));
    expect(*summary.crc32 == native || *summary.crc32 == converted, view.dtype, "crc32");
  }
}

void check(const TensorView& target, const TensorView& reference, const metrics::PairMetrics& found) {
  const DType dtype = target.dtype;
  const bool in_double = dtype == DType::kFloat64 || !is_floating(dtype);
  const auto count = static_cast<std::size_t>(element_count(target));
  long double dot = 0;
  long double distance = 0;
  long double absolute_dot = 0;
  double max_absolute = 0;
  double max_relative = 0;
  std::int64_t below = 0;
  std::int64_t equal = 0;
  for (std::size_t i = 0; i < count; ++i) {
    double n = element(target.data, dtype, i);
    double b = element(reference.data, dtype, i);
    dot += static_cast<long double>(n) * b;
    absolute_dot += std::fabs(static_cast<long double>(n) * b);
    distance += (static_cast<long double>(n) - b) * (static_cast<long double>(n) - b);
    max_absolute = std::max(max_absolute, std::fabs(n - b));
    equal += n == b && std::signbit(n) == std::signbit(b);
    if (b == 0) {
      n += 0x1p-52;
      b += 0x1p-52;
    }
    const auto fn = static_cast<float>(n);
    const auto fb = static_cast<float>(b);
    const double relative = in_double ? std::fabs((n - b) / b) : std::fabs((fn - fb) / fb);
    max_relative = std::max(max_relative, relative);
    below += relative < (in_double ? 0.005 : 0.005F);
  }
  const double size = std::max(static_cast<double>(absolute_dot), 1e-300);
  expect(found.count == static_cast<std::int64_t>(count) && found.finite_pairs == found.count, dtype,
         "count");
  expect(std::fabs(found.dot - static_cast<double>(dot)) <= 1e-12 * size, dtype, "dot");
  expect(near(found.squared_distance, static_cast<double>(distance), 1e-12), dtype, "squared_distance");
  expect(found.max_absolute == max_absolute, dtype, "max_absolute");
  expect(found.max_relative == max_relative, dtype, "max_relative");
  expect(found.below_five_thousandths == below, dtype, "below_five_thousandths");
  expect(found.equal_bits == equal, dtype, "equal_bits");
}

}  // namespace msprobe::bench

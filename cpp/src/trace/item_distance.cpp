// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "trace/item_distance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "msprobe/trace_compare.h"

namespace msprobe::trace {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Machine epsilon of what was recorded: statistics of float64 are rounded to float32. 0: not of floating
// point.
double epsilon(std::string_view dtype) {
  if (dtype == "torch.float32" || dtype == "torch.float64" || dtype.starts_with("torch.complex"))
    return 0x1p-23;
  if (dtype == "torch.bfloat16") return 0x1p-7;
  if (dtype == "torch.float16") return 0x1p-10;
  if (dtype.starts_with("torch.float8_e4m3")) return 0x1p-3;
  if (dtype.starts_with("torch.float8_e5m2")) return 0x1p-2;
  return dtype == "float32" || dtype == "float64" ? 0x1p-23 : 0;
}

// Two items of two traces.
struct Pair {
  const Trace& left;
  const Trace& right;
};

bool same_text(const Pair& pair, Text a, Text b) { return pair.left.text(a) == pair.right.text(b); }

// Most are, and need not be read as numbers.
bool same_statistics(const Pair& pair, const Item& left, const Item& right) {
  const auto same = [&pair](const Scalar& a, const Scalar& b) {
    return a.kind == b.kind && same_text(pair, a.text(), b.text());
  };
  return same(left.max, right.max) && same(left.min, right.min) && same(left.mean, right.mean) &&
         same(left.norm, right.norm);
}

StatisticNumbers numbers(const Trace& trace, const Item& item) {
  return {trace.number(item.max), trace.number(item.min), trace.number(item.mean), trace.number(item.norm)};
}

// |a - b| / scale; NaN or the same infinity on both sides is no difference.
double relative(std::optional<double> a, std::optional<double> b, double scale) {
  if (!a || !b) return a.has_value() == b.has_value() ? 0 : kInfinity;
  if (*a == *b || (std::isnan(*a) && std::isnan(*b))) return 0;
  if (!std::isfinite(*a) || !std::isfinite(*b)) return kInfinity;
  return std::abs(*a - *b) / std::max(scale, std::numeric_limits<double>::min());
}

double largest_finite(std::initializer_list<std::optional<double>> values) {
  double largest = 0;
  for (const auto& value : values) {
    if (value && std::isfinite(*value)) largest = std::max(largest, std::abs(*value));
  }
  return largest;
}

// `floor`: what a typical element is measured against at least; below it there is nothing but rounding.
double relative_distance(const StatisticNumbers& a, const StatisticNumbers& b, double count, double floor) {
  const double extreme = largest_finite({a[0], a[1], b[0], b[1]});
  const double root = std::sqrt(std::max(count, 1.0));
  const double norm = std::max(largest_finite({a[3], b[3]}), floor * root);
  const double typical = norm > 0 ? norm / root : extreme;
  const double widest = std::max(extreme, floor);
  return std::max({relative(a[0], b[0], widest), relative(a[1], b[1], widest), relative(a[2], b[2], typical),
                   relative(a[3], b[3], norm)});
}

Distance value_distance(const Pair& pair, const Item& left, const Item& right) {
  if (same_text(pair, left.value.text(), right.value.text())) return {};
  const auto a = pair.left.number(left.value), b = pair.right.number(right.value);
  const bool are_floats = left.value.kind == Scalar::Kind::kFloat || right.value.kind == Scalar::Kind::kFloat;
  if (!a || !b || !are_floats) return {.ulps = kInfinity, .equal = false};
  const double apart = relative(a, b, largest_finite({a, b}));
  return {.ulps = apart / 0x1p-23, .equal = apart == 0};
}

Distance tensor_distance(const Pair& pair, const Item& left, const Item& right, const RealMetrics* metrics,
                         double floor) {
  const std::string_view dtype = pair.right.text(right.dtype);
  const double count = element_count(pair.right.text(right.shape));
  double apart = 0;
  if (!same_statistics(pair, left, right)) {
    apart = relative_distance(numbers(pair.left, left), numbers(pair.right, right), count, floor);
  }
  Distance result;
  result.equal = apart == 0;
  if (left.md5.length > 0 && right.md5.length > 0) result.equal = same_text(pair, left.md5, right.md5);
  if (metrics != nullptr && metrics->euclidean.number()) {
    const double norm = std::max(largest_finite({pair.right.number(right.norm)}), floor * std::sqrt(count));
    result.equal = metrics->max_absolute.number().value_or(1) == 0;
    apart = std::max(apart, norm > 0 ? metrics->euclidean.value / norm : metrics->euclidean.value);
  }
  const bool same_bools = same_text(pair, left.max.text(), right.max.text()) &&
                          same_text(pair, left.min.text(), right.min.text());
  const double unit = std::max(epsilon(dtype), epsilon(pair.left.text(left.dtype)));
  if (dtype == "torch.bool") {
    result.equal = result.equal && same_bools;
    result.ulps = result.equal ? 0 : kInfinity;
  } else if (unit == 0) {
    result.ulps = result.equal ? 0 : kInfinity;
  } else {
    // Checksums that differ over equal statistics: less than can be seen, but not nothing.
    result.ulps = result.equal ? 0 : std::max(apart / unit, 0.01);
  }
  return result;
}

}  // namespace

double element_count(std::string_view shape) {
  double count = 1, extent = 0;
  bool in_number = false;
  for (const char c : shape) {
    if (c >= '0' && c <= '9') {
      extent = extent * 10 + (c - '0');
      in_number = true;
    } else if (in_number) {
      count *= extent;
      extent = 0;
      in_number = false;
    }
  }
  return count;
}

double typical_element(const Trace& trace, const Item& item) {
  const double norm = largest_finite({trace.number(item.norm)});
  return norm / std::sqrt(std::max(element_count(trace.text(item.shape)), 1.0));
}

Distance statistics_distance(std::string_view dtype, double count, const StatisticNumbers& left,
                             const StatisticNumbers& right) {
  const double apart = relative_distance(left, right, count, 0), unit = epsilon(dtype);
  if (apart == 0) return {};
  return {.ulps = unit == 0 ? kInfinity : apart / unit, .equal = false};
}

Distance distance(const Trace& left_trace, const Item& left, const Trace& right_trace, const Item* right,
                  const RealMetrics* metrics, double floor) {
  const Pair pair{left_trace, right_trace};
  if (right == nullptr || left.kind != right->kind) return {.ulps = kInfinity, .equal = false};
  if (left.kind == Item::Kind::kNull) return {};
  return left.kind == Item::Kind::kTensor ? tensor_distance(pair, left, *right, metrics, floor)
                                          : value_distance(pair, left, *right);
}

}  // namespace msprobe::trace

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <utility>

#include "base/float_environment.h"
#include "msprobe/stats.h"

namespace msprobe::stats {
namespace {

// A sum that is rounded once, so that the order is nothing to it: the order of ranks is no property of what
// they hold. What is added up is kept as numbers that do not overlap (J. Shewchuk, Adaptive precision
// floating-point arithmetic, Discrete & Computational Geometry 18, 1997).
class ExactSum {
 public:
  void add(double x) {
    plain_ += x;
    std::size_t kept = 0;
    for (double y : parts_) {
      if (std::abs(x) < std::abs(y)) std::swap(x, y);
      const double high = x + y;
      const double low = y - (high - x);
      if (low != 0) parts_[kept++] = low;
      x = high;
    }
    parts_.resize(kept);
    parts_.push_back(x);
  }

  double value() const {
    if (!std::isfinite(plain_)) return plain_;  // of NaN and infinities, or beyond a double
    std::size_t left = parts_.size();
    if (left == 0) return 0;
    double high = parts_[--left], low = 0;
    while (left > 0 && low == 0) {
      const double x = high, y = parts_[--left];
      high = x + y;
      low = y - (high - x);
    }
    // Half a unit in the last place: what is left decides on which side the sum lies.
    if (left > 0 && (low < 0) == (parts_[left - 1] < 0) && low != 0) {
      const double twice = low * 2, next = high + twice;
      if (twice == next - high) high = next;
    }
    return high;
  }

 private:
  std::vector<double> parts_;
  double plain_ = 0;
};

template <typename Term>
double total(std::span<const Summary> parts, Term term) {
  ExactSum sum;
  for (const Summary& part : parts) {
    if (part.count > 0) sum.add(term(part));
  }
  return sum.value();
}

template <typename Count>
std::int64_t counted(std::span<const Summary> parts, Count count) {
  std::int64_t sum = 0;
  for (const Summary& part : parts) sum += count(part);
  return sum;
}

// Of those parts that have one; one NaN makes it NaN.
template <typename Value, typename Better>
std::optional<double> extreme(std::span<const Summary> parts, Value value, Better better) {
  std::optional<double> found;
  for (const Summary& part : parts) {
    const std::optional<double> one = part.count > 0 ? value(part) : std::nullopt;
    if (one && (!found || std::isnan(*one) || better(*one, *found))) found = one;
  }
  return found;
}

template <typename Value>
bool all_have(std::span<const Summary> parts, Value value) {
  return std::ranges::all_of(parts, [&](const Summary& part) { return part.count == 0 || value(part); });
}

std::int64_t finite(const Summary& part) {
  return part.count - part.nan_count - part.pos_inf_count - part.neg_inf_count;
}

std::optional<Sketch> sketch_of(std::span<const Summary> parts) {
  if (!all_have(parts, [](const Summary& part) { return part.sketch.has_value(); })) return std::nullopt;
  Sketch whole;
  for (std::size_t i = 0; i < Sketch::kSums; ++i) {
    whole.sums[i] = total(parts, [&](const Summary& part) { return part.sketch->sums[i]; });
  }
  const auto of_finite = [](auto value) {
    return [value](const Summary& part) {
      return finite(part) > 0 ? std::optional(value(*part.sketch)) : std::nullopt;
    };
  };
  whole.min = extreme(parts, of_finite([](const Sketch& one) { return one.min; }), std::less()).value_or(0);
  whole.max =
      extreme(parts, of_finite([](const Sketch& one) { return one.max; }), std::greater()).value_or(0);
  whole.norm =
      std::sqrt(total(parts, [](const Summary& part) { return part.sketch->norm * part.sketch->norm; }));
  const double sum = total(parts, [](const Summary& part) {
    return finite(part) > 0 ? part.sketch->mean * static_cast<double>(finite(part)) : 0;
  });
  const std::int64_t count = counted(parts, finite);
  whole.mean = count > 0 ? sum / static_cast<double>(count) : 0;
  for (const Summary& part : parts) {
    if (part.sketch && part.count > 0) whole.digest += part.sketch->digest;
  }
  return whole;
}

std::optional<std::vector<std::int64_t>> intervals_of(std::span<const Summary> parts) {
  std::vector<std::int64_t> whole;
  for (const Summary& part : parts) {
    if (whole.empty()) whole.resize(part.interval_counts.size());
    if (part.interval_counts.size() != whole.size()) return std::nullopt;
    std::ranges::transform(whole, part.interval_counts, whole.begin(), std::plus());
  }
  return whole;
}

}  // namespace

std::optional<Summary> joined(std::span<const Summary> parts, std::int64_t count, std::int64_t padding,
                              bool integers) {
  const FloatEnvironment standard;
  if (parts.empty() || counted(parts, [](const Summary& part) { return part.count; }) != count + padding)
    return std::nullopt;
  const auto of_one = [&](double sum) { return integers && std::isfinite(sum) ? std::round(sum) : sum; };
  const auto weighted = [&](std::optional<double> Summary::* mean) -> std::optional<double> {
    if (count == 0 || !all_have(parts, [&](const Summary& part) { return (part.*mean).has_value(); }))
      return std::nullopt;
    const auto sum = [&](const Summary& part) {
      return of_one(*(part.*mean) * static_cast<double>(part.count));
    };
    return total(parts, sum) / static_cast<double>(count);
  };
  const auto added = [&](std::optional<double> Summary::* sum) -> std::optional<double> {
    if (!all_have(parts, [&](const Summary& part) { return (part.*sum).has_value(); })) return std::nullopt;
    return total(parts, [&](const Summary& part) { return *(part.*sum); });
  };
  Summary whole;
  whole.count = count;
  whole.min = extreme(parts, [](const Summary& part) { return part.min; }, std::less());
  whole.max = extreme(parts, [](const Summary& part) { return part.max; }, std::greater());
  whole.mean = weighted(&Summary::mean);
  whole.mean_imag = weighted(&Summary::mean_imag);
  whole.norm = std::sqrt(total(parts, [&](const Summary& part) { return of_one(part.norm * part.norm); }));
  for (const auto member : {&Summary::nan_count, &Summary::pos_inf_count, &Summary::neg_inf_count})
    whole.*member = counted(parts, [&](const Summary& part) { return part.*member; });
  whole.zero_count = counted(parts, [](const Summary& part) { return part.zero_count; }) - padding;
  whole.sum = total(parts, [](const Summary& part) { return part.sum; });
  whole.squares = total(parts, [](const Summary& part) { return part.squares; });
  whole.sum_abs = added(&Summary::sum_abs);
  whole.fourth_powers = added(&Summary::fourth_powers);
  if (all_have(parts, [](const Summary& part) { return part.small_count.has_value(); })) {
    whole.small_count =
        counted(parts, [](const Summary& part) { return part.small_count.value_or(0); }) - padding;
  }
  if (padding == 0) whole.interval_counts = intervals_of(parts).value_or(std::vector<std::int64_t>{});
  if (count > 0) whole.sketch = sketch_of(parts);
  return whole;
}

std::optional<Summary> added_up(std::span<const Summary> summands) {
  const FloatEnvironment standard;
  const auto is_known = [](const Summary& one) { return one.sketch && finite(one) == one.count; };
  if (summands.empty() || !std::ranges::all_of(summands, is_known)) return std::nullopt;
  Sketch sketch;
  double squares = 0;
  for (std::size_t i = 0; i < Sketch::kSums; ++i) {
    sketch.sums[i] = total(summands, [&](const Summary& one) { return one.sketch->sums[i]; });
    squares += sketch.sums[i] * sketch.sums[i];
  }
  sketch.mean = total(summands, [](const Summary& one) { return one.sketch->mean; });
  sketch.norm = std::sqrt(squares);  // each element is in one of them
  std::array<double, Sketch::kSums + 1> known{sketch.mean};
  std::ranges::copy(sketch.sums, known.begin() + 1);
  constexpr std::array<std::int64_t, 1> kShape{known.size()}, kStrides{1};
  SummaryOptions options;
  options.sketch = true;
  const std::optional<Sketch> of_known =
      summarize({known.data(), DType::kFloat64, kShape, kStrides}, options).sketch;
  if (of_known) sketch.digest = of_known->digest;
  Summary whole;
  whole.count = summands.front().count;
  whole.mean = sketch.mean;
  whole.norm = sketch.norm;
  whole.sketch = sketch;
  return whole;
}

}  // namespace msprobe::stats

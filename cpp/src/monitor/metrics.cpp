// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/non_finite.h"
#include "msprobe/monitor_frame.h"

namespace msprobe::monitor {
namespace {

double number(std::int64_t n) { return static_cast<double>(n); }

// A share of all elements.
double share(std::int64_t n, const Row& row) {
  return row.sums.count == 0 ? kNaN : number(n) / number(row.sums.count);
}

double mean_of(double sum, const Row& row) {
  return row.sums.count == 0 ? kNaN : sum / number(row.sums.count);
}

// Of squares, which are never negative but by rounding.
double root(double square) { return std::sqrt(square < 0 ? 0 : square); }

double total(const Row& row) { return std::accumulate(row.counts.begin(), row.counts.end(), 0.0); }

// What stands at this share of the counts in ascending order, as a multiple of their mean.
double count_at(const Row& row, double place) {
  const double mean =
      row.counts.empty() ? 0 : total(row) / number(static_cast<std::int64_t>(row.counts.size()));
  if (mean == 0) return kNaN;
  std::vector<double> counts = row.counts;
  std::sort(counts.begin(), counts.end());
  const double at = place * number(static_cast<std::int64_t>(counts.size() - 1));
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, counts.size() - 1);
  return std::lerp(counts[below], counts[above], at - std::floor(at)) / mean;
}

constexpr std::string_view kOutliers = "He et al. 2024, Understanding and Minimising Outlier Features";
constexpr std::string_view kBalance = "Fedus et al. 2022, Switch Transformers";

// Adding a metric: one row here, one test in tests/cpp/monitor/metrics_test.cpp.
constexpr std::array kMetrics{
    Metric{Kind::kTensor, "min", "min x", "", "", false,
           [](const Row& r) { return r.sums.count == 0 ? kNaN : r.sums.min; }},
    Metric{Kind::kTensor, "max", "max x", "", "", false,
           [](const Row& r) { return r.sums.count == 0 ? kNaN : r.sums.max; }},
    Metric{Kind::kTensor, "mean", "sum x / n", "", "", false,
           [](const Row& r) { return mean_of(r.sums.sum, r); }},
    Metric{Kind::kTensor, "norm", "sqrt(sum x^2)", "", "", false,
           [](const Row& r) { return std::sqrt(r.sums.squares); }},
    Metric{Kind::kTensor, "nans", "count(x is NaN)", "elements", "", true,
           [](const Row& r) { return number(r.sums.nan); }},
    Metric{Kind::kTensor, "zeros", "count(|x| < eps) / n", "share", "", false,
           [](const Row& r) { return share(r.sums.small, r); }},
    Metric{Kind::kTensor, "rms", "sqrt(sum x^2 / n)", "", "", false,
           [](const Row& r) { return std::sqrt(mean_of(r.sums.squares, r)); }},
    Metric{Kind::kTensor, "abs_mean", "sum |x| / n", "", "", false,
           [](const Row& r) { return mean_of(r.sums.absolute, r); }},
    Metric{Kind::kTensor, "abs_max", "max |x|", "", "", false,
           [](const Row& r) {
             if (r.sums.count == 0 || std::isnan(r.sums.max)) return kNaN;
             return std::max(r.sums.max, -r.sums.min);
           }},
    Metric{Kind::kTensor, "std", "sqrt(sum x^2 / n - mean^2)", "", "", false,
           [](const Row& r) {
             const double mean = mean_of(r.sums.sum, r);
             return root(mean_of(r.sums.squares, r) - mean * mean);
           }},
    // 3 for a normal distribution, n for a single element that is not zero. Not centred.
    Metric{Kind::kTensor, "kurtosis", "n sum x^4 / (sum x^2)^2", "", kOutliers, false,
           [](const Row& r) {
             if (r.sums.squares == 0) return kNaN;
             return number(r.sums.count) * (r.sums.fourth / r.sums.squares) / r.sums.squares;
           }},
    Metric{Kind::kTensor, "infs", "count(x is +Inf or -Inf)", "elements", "", true,
           [](const Row& r) { return number(r.sums.inf); }},
    Metric{Kind::kTensor, "nonfinite", "count(x is NaN or Inf) / n", "share", "", false,
           [](const Row& r) { return share(r.sums.nan + r.sums.inf, r); }},
    Metric{Kind::kTensor, "numel", "n", "elements", "", true,
           [](const Row& r) { return number(r.sums.count); }},

    Metric{Kind::kPair, "distance", "sqrt(sum (x - y)^2)", "", "", false,
           [](const Row& r) { return r.sums.count == 0 ? kNaN : root(r.sums.absolute); }},
    Metric{Kind::kPair, "ratio", "sqrt(sum (x - y)^2 / sum x^2)", "share", "", false,
           [](const Row& r) { return r.sums.squares == 0 ? kNaN : root(r.sums.absolute / r.sums.squares); }},
    Metric{Kind::kPair, "cosine", "sum x y / sqrt(sum x^2 sum y^2)", "", "", false,
           [](const Row& r) {
             const double norms = std::sqrt(r.sums.squares) * std::sqrt(r.sums.fourth);
             return norms == 0 ? kNaN : r.sums.sum / norms;
           }},
    Metric{Kind::kPair, "agreement", "(sum sign(x) sign(y) / n + 1) / 2", "share", "", false,
           [](const Row& r) { return (share(r.sums.small, r) + 1) / 2; }},

    Metric{Kind::kCounts, "largest", "max c / mean c", "of the mean", kBalance, false,
           [](const Row& r) { return count_at(r, 1); }},
    Metric{Kind::kCounts, "smallest", "min c / mean c", "of the mean", kBalance, false,
           [](const Row& r) { return count_at(r, 0); }},
    Metric{Kind::kCounts, "p10", "10th percentile of c / mean c", "of the mean", kBalance, false,
           [](const Row& r) { return count_at(r, 0.1); }},
    Metric{Kind::kCounts, "median", "median of c / mean c", "of the mean", kBalance, false,
           [](const Row& r) { return count_at(r, 0.5); }},
    Metric{Kind::kCounts, "p90", "90th percentile of c / mean c", "of the mean", kBalance, false,
           [](const Row& r) { return count_at(r, 0.9); }},
    Metric{Kind::kCounts, "dead", "count(c = 0) / count(c)", "share", kBalance, false,
           [](const Row& r) {
             if (r.counts.empty()) return kNaN;
             const auto none = std::count(r.counts.begin(), r.counts.end(), 0.0);
             return number(none) / number(static_cast<std::int64_t>(r.counts.size()));
           }},
    Metric{Kind::kCounts, "dropped", "sum max(0, c - capacity mean c) / sum c", "share", kBalance, false,
           [](const Row& r) {
             const double all = total(r);
             if (all == 0) return kNaN;
             const double room = r.capacity * all / number(static_cast<std::int64_t>(r.counts.size()));
             double over = 0;
             for (const double c : r.counts) over += std::max(0.0, c - room);
             return over / all;
           }},
    // 1: all the same; 0: one has everything.
    Metric{Kind::kCounts, "entropy", "-sum p log p / log count(c), p = c / sum c", "share", kBalance, false,
           [](const Row& r) {
             const double all = total(r);
             if (all == 0 || r.counts.size() < 2) return kNaN;
             double entropy = 0;
             for (const double c : r.counts) {
               if (c > 0) entropy -= c / all * std::log(c / all);
             }
             return entropy / std::log(number(static_cast<std::int64_t>(r.counts.size())));
           }},
};

}  // namespace

std::span<const Metric> metrics() noexcept { return kMetrics; }

const Metric* find_metric(Kind kind, std::string_view name) noexcept {
  const auto* found = std::find_if(kMetrics.begin(), kMetrics.end(), [&](const Metric& metric) {
    return metric.kind == kind && metric.name == name;
  });
  return found == kMetrics.end() ? nullptr : found;
}

}  // namespace msprobe::monitor

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "base/non_finite.h"
#include "msprobe/monitor_frame.h"

namespace msprobe::monitor {
namespace {

// One NaN is the result, whichever side it is on.
double smaller(double a, double b) { return std::isnan(a) || std::isnan(b) ? kNaN : std::min(a, b); }
double larger(double a, double b) { return std::isnan(a) || std::isnan(b) ? kNaN : std::max(a, b); }

}  // namespace

Sums sums_of(const stats::Summary& summary) {
  Sums sums;
  if (summary.count == 0) return sums;
  sums.count = summary.count;
  sums.nan = summary.nan_count;
  sums.inf = summary.pos_inf_count + summary.neg_inf_count;
  sums.zeros = summary.zero_count;
  sums.small = summary.small_count.value_or(0);
  sums.sum = summary.sum;
  sums.absolute = summary.sum_abs.value_or(kNaN);
  sums.squares = summary.squares;
  sums.fourth = summary.fourth_powers.value_or(kNaN);
  sums.min = summary.min.value_or(kNaN);
  sums.max = summary.max.value_or(kNaN);
  if (sums.nan > 0) sums.sum = sums.absolute = sums.squares = sums.fourth = kNaN;
  return sums;
}

Sums sums_of(const stats::PairSums& pair) {
  Sums sums;
  sums.count = pair.count;
  sums.squares = pair.left_squares;
  sums.fourth = pair.right_squares;
  sums.sum = pair.dot;
  sums.absolute = pair.squared_distance;
  sums.small = pair.sign_balance;
  return sums;
}

void merge(Sums& whole, const Sums& part) {
  whole.count += part.count;
  whole.nan += part.nan;
  whole.inf += part.inf;
  whole.zeros += part.zeros;
  whole.small += part.small;
  whole.sum += part.sum;
  whole.absolute += part.absolute;
  whole.squares += part.squares;
  whole.fourth += part.fourth;
  whole.min = smaller(whole.min, part.min);
  whole.max = larger(whole.max, part.max);
}

// Collectives that take the largest number do not agree on NaN, so none is given to them: whether there is
// one is told by the count of NaN, or by the sums where a tensor has no extremes.
void pack(const Sums& sums, std::span<double, kSummed> summed, std::span<double, kExtremes> extremes) {
  const auto count = [](std::int64_t n) { return static_cast<double>(n); };
  const std::array<double, kSummed> all{count(sums.count), count(sums.nan),   count(sums.inf),
                                        count(sums.zeros), count(sums.small), sums.sum,
                                        sums.absolute,     sums.squares,      sums.fourth};
  std::copy(all.begin(), all.end(), summed.begin());
  extremes[0] = std::isnan(sums.max) ? -kInfinity : sums.max;
  extremes[1] = std::isnan(sums.min) ? -kInfinity : -sums.min;
}

Sums unpack(std::span<const double, kSummed> summed, std::span<const double, kExtremes> extremes) {
  const auto count = [](double n) { return static_cast<std::int64_t>(std::llround(n)); };
  Sums sums;
  sums.count = count(summed[0]);
  sums.nan = count(summed[1]);
  sums.inf = count(summed[2]);
  sums.zeros = count(summed[3]);
  sums.small = count(summed[4]);
  sums.sum = summed[5];
  sums.absolute = summed[6];
  sums.squares = summed[7];
  sums.fourth = summed[8];
  sums.max = extremes[0];
  sums.min = -extremes[1];
  const bool has_none = sums.count > 0 && sums.max < sums.min;  // a complex tensor
  if (sums.nan > 0 || has_none) sums.min = sums.max = kNaN;
  return sums;
}

}  // namespace msprobe::monitor

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// Highway compiles this file once per instruction set. See docs/adr/0004.

#include "base/kernel_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stats/pair_kernels.cpp"
#include <hwy/foreach_target.h>

#include "stats/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace msprobe::stats::HWY_NAMESPACE {
namespace {

HWY_INLINE hn::Vec<Doubles> load_double(const float* data) {
  return hn::PromoteTo(Doubles(), hn::LoadU(FloatsOfDoubles(), data));
}

HWY_INLINE hn::Vec<Doubles> load_double(const double* data) { return hn::LoadU(Doubles(), data); }

constexpr int sign_of(double x) { return (x > 0) - (x < 0); }

// Element i goes to lane i % kLanes whatever the width of the vectors.
template <typename T>
HWY_INLINE PairSums pairs_of(const T* HWY_RESTRICT left, const T* HWY_RESTRICT right, std::size_t count) {
  constexpr std::size_t sums = 4;
  const Doubles dd;
  hn::Vec<Doubles> sum[sums][kDoubleVectors];
  for (auto& vectors : sum) {
    for (auto& vector : vectors) vector = hn::Zero(dd);
  }
  const auto zero = hn::Zero(dd);
  auto agree = hn::Zero(Counters<Doubles>());
  auto disagree = hn::Zero(Counters<Doubles>());
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t v = 0; v < kDoubleVectors; ++v) {
      const auto x = load_double(left + i + v * kDoubleWidth);
      const auto y = load_double(right + i + v * kDoubleWidth);
      const auto distance = hn::Sub(x, y);
      sum[0][v] = hn::MulAdd(x, x, sum[0][v]);
      sum[1][v] = hn::MulAdd(y, y, sum[1][v]);
      sum[2][v] = hn::MulAdd(x, y, sum[2][v]);
      sum[3][v] = hn::MulAdd(distance, distance, sum[3][v]);
      // By comparisons: a product of two small numbers would be zero.
      const auto same =
          hn::Or(hn::And(hn::Gt(x, zero), hn::Gt(y, zero)), hn::And(hn::Lt(x, zero), hn::Lt(y, zero)));
      const auto other =
          hn::Or(hn::And(hn::Gt(x, zero), hn::Lt(y, zero)), hn::And(hn::Lt(x, zero), hn::Gt(y, zero)));
      agree = count_where(dd, agree, same);
      disagree = count_where(dd, disagree, other);
    }
  }
  HWY_ALIGN double lanes[sums][kLanes];
  for (std::size_t s = 0; s < sums; ++s) {
    for (std::size_t v = 0; v < kDoubleVectors; ++v) hn::Store(sum[s][v], dd, lanes[s] + v * kDoubleWidth);
  }
  PairSums result;
  result.count = static_cast<std::int64_t>(count);
  result.sign_balance = total(dd, agree) - total(dd, disagree);
  for (std::size_t lane = 0; i < count; ++i, ++lane) {
    const double x = left[i];
    const double y = right[i];
    lanes[0][lane] += x * x;
    lanes[1][lane] += y * y;
    lanes[2][lane] += x * y;
    lanes[3][lane] += (x - y) * (x - y);
    result.sign_balance += static_cast<std::int64_t>(sign_of(x)) * sign_of(y);
  }
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    result.left_squares += lanes[0][lane];
    result.right_squares += lanes[1][lane];
    result.dot += lanes[2][lane];
    result.squared_distance += lanes[3][lane];
  }
  return result;
}

PairSums pairs_f32(const float* left, const float* right, std::size_t count) {
  return pairs_of(left, right, count);
}

PairSums pairs_f64(const double* left, const double* right, std::size_t count) {
  return pairs_of(left, right, count);
}

}  // namespace

void add_pair_kernels_here(Kernels& kernels) {
  kernels.pairs_f32 = pairs_f32;
  kernels.pairs_f64 = pairs_f64;
}

}  // namespace msprobe::stats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace msprobe::stats {

HWY_EXPORT(add_pair_kernels_here);

void add_pair_kernels(Kernels& kernels) { HWY_DYNAMIC_DISPATCH(add_pair_kernels_here)(kernels); }

}  // namespace msprobe::stats
#endif

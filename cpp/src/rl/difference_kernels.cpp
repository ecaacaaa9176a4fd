// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// Highway compiles this file once per instruction set. See docs/adr/0004.

#include "rl/difference_kernels.h"

#include <algorithm>
#include <cstring>

#include "base/kernel_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rl/difference_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace msprobe::rl::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
bool add(const T* reference, const T* target, std::size_t count, const Tolerance& tolerance, Counts* counts) {
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto thousandth = hn::Set(d, T(0.001));
  const auto hundredth = hn::Set(d, T(0.01));
  const auto relative_tolerance = hn::Set(d, static_cast<T>(tolerance.relative));
  const auto absolute_tolerance = hn::Set(d, static_cast<T>(tolerance.absolute));
  auto max_absolute = hn::Zero(d);
  auto max_relative = hn::Zero(d);
  auto finite = hn::FirstN(d, lanes);
  std::size_t same = 0;
  std::size_t within_thousandth = 0;
  std::size_t within_hundredth = 0;
  std::size_t within_tolerance = 0;

  const auto add_vectors = [&](hn::Vec<decltype(d)> l, hn::Vec<decltype(d)> r) HWY_ATTR {
    const auto distance = hn::Abs(hn::Sub(l, r));
    const auto larger = hn::Max(hn::Abs(l), hn::Abs(r));
    finite = hn::And(finite, hn::Lt(distance, hn::Inf(d)));
    same += hn::CountTrue(d, hn::Eq(l, r));
    within_thousandth += hn::CountTrue(d, hn::Le(distance, hn::Mul(larger, thousandth)));
    within_hundredth += hn::CountTrue(d, hn::Le(distance, hn::Mul(larger, hundredth)));
    const auto allowed = hn::Add(absolute_tolerance, hn::Mul(larger, relative_tolerance));
    within_tolerance += hn::CountTrue(d, hn::Le(distance, allowed));
    max_absolute = hn::Max(max_absolute, distance);
    // 0 / 0 is nothing.
    const auto relative = hn::Div(distance, larger);
    max_relative = hn::Max(max_relative, hn::IfThenElseZero(hn::Gt(larger, hn::Zero(d)), relative));
  };

  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) add_vectors(hn::LoadU(d, reference + i), hn::LoadU(d, target + i));
  if (i < count) {
    // Filled up with zeros, which are the same.
    HWY_ALIGN T last[2 * hn::MaxLanes(d)] = {};
    std::memcpy(last, reference + i, (count - i) * sizeof(T));
    std::memcpy(last + lanes, target + i, (count - i) * sizeof(T));
    add_vectors(hn::LoadU(d, last), hn::LoadU(d, last + lanes));
    const std::size_t added = lanes - (count - i);
    same -= added;
    within_thousandth -= added;
    within_hundredth -= added;
    within_tolerance -= added;
  }
  if (!hn::AllTrue(d, finite)) return false;
  counts->same += static_cast<std::int64_t>(same);
  counts->within_thousandth += static_cast<std::int64_t>(within_thousandth);
  counts->within_hundredth += static_cast<std::int64_t>(within_hundredth);
  counts->within_tolerance += static_cast<std::int64_t>(within_tolerance);
  counts->max_absolute =
      std::max(counts->max_absolute, static_cast<double>(hn::GetLane(hn::MaxOfLanes(d, max_absolute))));
  counts->max_relative =
      std::max(counts->max_relative, static_cast<double>(hn::GetLane(hn::MaxOfLanes(d, max_relative))));
  return true;
}

bool add_floats(const float* reference, const float* target, std::size_t count, const Tolerance& tolerance,
                Counts* counts) {
  return add(reference, target, count, tolerance, counts);
}

bool add_doubles(const double* reference, const double* target, std::size_t count, const Tolerance& tolerance,
                 Counts* counts) {
  return add(reference, target, count, tolerance, counts);
}

}  // namespace
}  // namespace msprobe::rl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace msprobe::rl {

HWY_EXPORT(add_floats);
HWY_EXPORT(add_doubles);

bool add_finite(const float* reference, const float* target, std::size_t count, Tolerance tolerance,
                Counts& counts) {
  [[maybe_unused]] static const auto once = use_best_instruction_set();
  return HWY_DYNAMIC_DISPATCH(add_floats)(reference, target, count, tolerance, &counts);
}

bool add_finite(const double* reference, const double* target, std::size_t count, Tolerance tolerance,
                Counts& counts) {
  [[maybe_unused]] static const auto once = use_best_instruction_set();
  return HWY_DYNAMIC_DISPATCH(add_doubles)(reference, target, count, tolerance, &counts);
}

}  // namespace msprobe::rl
#endif

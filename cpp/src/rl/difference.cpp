// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "rl/difference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <type_traits>

#include "base/convert.h"
#include "base/float_environment.h"
#include "base/layout.h"
#include "base/non_finite.h"
#include "msprobe/error.h"
#include "rl/difference_kernels.h"

namespace msprobe::rl {
namespace {

constexpr std::size_t kBlock = 1024;  // pairs that are converted at once

// A maximum that a NaN makes NaN.
void raise(double& most, double value) {
  if (std::isnan(value) || value > most) most = value;
}

bool is_float(DType dtype) {
  return dtype != DType::kFloat64 && (is_floating(dtype) || element_size(dtype) <= 2);
}

bool is_wide_integer(DType dtype) { return dtype == DType::kInt64 || dtype == DType::kUInt64; }

void add_same(Difference& difference) {
  ++difference.same;
  ++difference.within_thousandth;
  ++difference.within_hundredth;
  ++difference.within_tolerance;
}

// One pair, whatever it is. T: what the arithmetic is in.
template <typename T>
void add_pair(T reference, T target, Tolerance tolerance, Difference& difference) {
  const bool same = reference == target || (std::isnan(reference) && std::isnan(target));
  if (same) return add_same(difference);
  if (std::isnan(reference) || std::isnan(target)) {
    difference.max_absolute = difference.max_relative = kNaN;
    return;
  }
  if (std::isinf(reference) || std::isinf(target)) {
    raise(difference.max_absolute, kInfinity);
    raise(difference.max_relative, std::isinf(reference) && std::isinf(target) ? 2 : 1);
    return;
  }
  const T distance = std::abs(reference - target);
  const T larger = std::max(std::abs(reference), std::abs(target));
  if (std::isinf(distance)) {  // beyond the type
    const double wide = std::abs(static_cast<double>(reference) / 2 - static_cast<double>(target) / 2);
    raise(difference.max_absolute, 2 * wide);
    raise(difference.max_relative, wide / (static_cast<double>(larger) / 2));
    return;
  }
  difference.within_thousandth += distance <= T(0.001) * larger;
  difference.within_hundredth += distance <= T(0.01) * larger;
  difference.within_tolerance +=
      distance <= static_cast<T>(tolerance.absolute) + larger * static_cast<T>(tolerance.relative);
  raise(difference.max_absolute, static_cast<double>(distance));
  raise(difference.max_relative, static_cast<double>(distance / larger));
}

// 64-bit integers: their distance is exact, and rounded once.
template <typename T>
void add_integers(const void* reference_memory, const void* target_memory, std::size_t count,
                  Tolerance tolerance, Difference& difference) {
  for (std::size_t i = 0; i < count; ++i) {
    T reference = 0;
    T target = 0;
    std::memcpy(&reference, static_cast<const std::byte*>(reference_memory) + i * sizeof(T), sizeof(T));
    std::memcpy(&target, static_cast<const std::byte*>(target_memory) + i * sizeof(T), sizeof(T));
    if (reference == target) {
      add_same(difference);
      continue;
    }
    using U = std::make_unsigned_t<T>;
    const U apart = reference < target ? static_cast<U>(target) - static_cast<U>(reference)
                                       : static_cast<U>(reference) - static_cast<U>(target);
    const double larger =
        std::max(std::abs(static_cast<double>(reference)), std::abs(static_cast<double>(target)));
    const auto distance = static_cast<double>(apart);
    difference.within_thousandth += distance <= 0.001 * larger;
    difference.within_hundredth += distance <= 0.01 * larger;
    difference.within_tolerance += distance <= tolerance.absolute + tolerance.relative * larger;
    raise(difference.max_absolute, distance);
    raise(difference.max_relative, distance / larger);
  }
}

// At most kBlock pairs, all in T.
template <typename T>
void add_block(const T* reference, const T* target, std::size_t count, Tolerance tolerance,
               Difference& difference) {
  Counts counts;
  if (add_finite(reference, target, count, tolerance, counts)) {
    difference.same += counts.same;
    difference.within_thousandth += counts.within_thousandth;
    difference.within_hundredth += counts.within_hundredth;
    difference.within_tolerance += counts.within_tolerance;
    raise(difference.max_absolute, counts.max_absolute);
    raise(difference.max_relative, counts.max_relative);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    T l = 0;
    T r = 0;
    std::memcpy(&l, reference + i, sizeof(T));
    std::memcpy(&r, target + i, sizeof(T));
    add_pair(l, r, tolerance, difference);
  }
}

template <typename T>
const T* converted(const void* memory, DType dtype, std::size_t count, std::array<T, kBlock>& out) {
  constexpr bool is_double = std::is_same_v<T, double>;
  if (dtype == (is_double ? DType::kFloat64 : DType::kFloat32)) return static_cast<const T*>(memory);
  if constexpr (is_double) {
    convert_to_double(memory, dtype, count, out.data());
  } else {
    convert_to_float(memory, dtype, count, out.data());
  }
  return out.data();
}

template <typename T>
void add_converted(const void* reference, DType reference_dtype, const void* target, DType target_dtype,
                   std::size_t count, Tolerance tolerance, Difference& difference) {
  alignas(64) std::array<T, kBlock> l;
  alignas(64) std::array<T, kBlock> r;
  add_block(converted(reference, reference_dtype, count, l), converted(target, target_dtype, count, r), count,
            tolerance, difference);
}

void add_some(const void* reference, DType reference_dtype, const void* target, DType target_dtype,
              std::size_t count, Tolerance tolerance, Difference& difference) {
  if (reference_dtype == target_dtype && is_wide_integer(reference_dtype)) {
    if (reference_dtype == DType::kInt64) {
      add_integers<std::int64_t>(reference, target, count, tolerance, difference);
    } else {
      add_integers<std::uint64_t>(reference, target, count, tolerance, difference);
    }
  } else if (is_float(reference_dtype) && is_float(target_dtype)) {
    add_converted<float>(reference, reference_dtype, target, target_dtype, count, tolerance, difference);
  } else {
    add_converted<double>(reference, reference_dtype, target, target_dtype, count, tolerance, difference);
  }
}

}  // namespace

void add_pairs(const void* reference, DType reference_dtype, const void* target, DType target_dtype,
               std::int64_t first, std::size_t count, Tolerance tolerance, Difference& difference) {
  const auto add = [&](std::size_t at, std::size_t some, Difference& to) {
    add_some(static_cast<const std::byte*>(reference) + at * element_size(reference_dtype), reference_dtype,
             static_cast<const std::byte*>(target) + at * element_size(target_dtype), target_dtype, some,
             tolerance, to);
  };
  for (std::size_t at = 0; at < count; at += kBlock) {
    const std::size_t some = std::min(kBlock, count - at);
    const auto all = static_cast<std::int64_t>(some);
    const Difference before = difference;
    add(at, some, difference);
    difference.count += all;
    const bool has_first = !before.first_mismatch && difference.same - before.same < all;
    const bool has_beyond =
        !before.first_beyond && difference.within_tolerance - before.within_tolerance < all;
    if (!has_first && !has_beyond) continue;
    for (std::size_t i = 0; i < some; ++i) {
      Difference one;
      add(at + i, 1, one);
      const std::int64_t place = first + static_cast<std::int64_t>(at + i);
      if (one.same == 0 && !difference.first_mismatch) difference.first_mismatch = place;
      if (one.within_tolerance == 0 && !difference.first_beyond) difference.first_beyond = place;
    }
  }
}

void append(Difference& whole, const Difference& part) {
  whole.count += part.count;
  whole.same += part.same;
  whole.within_thousandth += part.within_thousandth;
  whole.within_hundredth += part.within_hundredth;
  whole.within_tolerance += part.within_tolerance;
  raise(whole.max_absolute, part.max_absolute);
  raise(whole.max_relative, part.max_relative);
  if (!whole.first_mismatch) whole.first_mismatch = part.first_mismatch;
  if (!whole.first_beyond) whole.first_beyond = part.first_beyond;
}

Difference compare(const TensorView& reference, const TensorView& target, Tolerance tolerance) {
  if (is_complex(reference.dtype) || is_complex(target.dtype)) {
    throw InvalidArgument("complex numbers have no order: expected arrays of real numbers");
  }
  const FloatEnvironment as_they_are;
  const Layout l(reference, false);
  const Layout r(target, false);
  if (!std::equal(reference.shape.begin(), reference.shape.end(), target.shape.begin(), target.shape.end())) {
    throw InvalidArgument("expected two arrays of the same shape");
  }
  Difference difference;
  struct Gathered {
    alignas(64) std::array<std::byte, kBlock * 16> reference, target;
  };
  const auto gathered = std::make_unique_for_overwrite<Gathered>();
  for (std::int64_t first = 0; first < l.count(); first += static_cast<std::int64_t>(kBlock)) {
    const auto count = static_cast<std::size_t>(std::min<std::int64_t>(kBlock, l.count() - first));
    const auto piece = [&](const Layout& layout, std::byte* room) -> const void* {
      if (layout.contiguous()) return layout.at(first);
      layout.gather(first, count, room);
      return room;
    };
    add_pairs(piece(l, gathered->reference.data()), reference.dtype, piece(r, gathered->target.data()),
              target.dtype, first, count, tolerance, difference);
  }
  return difference;
}

}  // namespace msprobe::rl

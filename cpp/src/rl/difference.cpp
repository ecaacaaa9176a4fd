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
void add_pair(T left, T right, Tolerance tolerance, Difference& difference) {
  const bool same = left == right || (std::isnan(left) && std::isnan(right));
  if (same) return add_same(difference);
  if (std::isnan(left) || std::isnan(right)) {
    difference.max_absolute = difference.max_relative = kNaN;
    return;
  }
  if (std::isinf(left) || std::isinf(right)) {
    raise(difference.max_absolute, kInfinity);
    raise(difference.max_relative, std::isinf(left) && std::isinf(right) ? 2 : 1);
    return;
  }
  const T distance = std::abs(left - right);
  const T larger = std::max(std::abs(left), std::abs(right));
  if (std::isinf(distance)) {  // beyond the type
    const double wide = std::abs(static_cast<double>(left) / 2 - static_cast<double>(right) / 2);
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
void add_integers(const void* left_memory, const void* right_memory, std::size_t count, Tolerance tolerance,
                  Difference& difference) {
  for (std::size_t i = 0; i < count; ++i) {
    T left = 0;
    T right = 0;
    std::memcpy(&left, static_cast<const std::byte*>(left_memory) + i * sizeof(T), sizeof(T));
    std::memcpy(&right, static_cast<const std::byte*>(right_memory) + i * sizeof(T), sizeof(T));
    if (left == right) {
      add_same(difference);
      continue;
    }
    using U = std::make_unsigned_t<T>;
    const U apart = left < right ? static_cast<U>(right) - static_cast<U>(left)
                                 : static_cast<U>(left) - static_cast<U>(right);
    const double larger = std::max(std::abs(static_cast<double>(left)), std::abs(static_cast<double>(right)));
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
void add_block(const T* left, const T* right, std::size_t count, Tolerance tolerance,
               Difference& difference) {
  Counts counts;
  if (add_finite(left, right, count, tolerance, counts)) {
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
    std::memcpy(&l, left + i, sizeof(T));
    std::memcpy(&r, right + i, sizeof(T));
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
void add_converted(const void* left, DType left_dtype, const void* right, DType right_dtype,
                   std::size_t count, Tolerance tolerance, Difference& difference) {
  alignas(64) std::array<T, kBlock> l;
  alignas(64) std::array<T, kBlock> r;
  add_block(converted(left, left_dtype, count, l), converted(right, right_dtype, count, r), count, tolerance,
            difference);
}

void add_some(const void* left, DType left_dtype, const void* right, DType right_dtype, std::size_t count,
              Tolerance tolerance, Difference& difference) {
  if (left_dtype == right_dtype && is_wide_integer(left_dtype)) {
    if (left_dtype == DType::kInt64) {
      add_integers<std::int64_t>(left, right, count, tolerance, difference);
    } else {
      add_integers<std::uint64_t>(left, right, count, tolerance, difference);
    }
  } else if (is_float(left_dtype) && is_float(right_dtype)) {
    add_converted<float>(left, left_dtype, right, right_dtype, count, tolerance, difference);
  } else {
    add_converted<double>(left, left_dtype, right, right_dtype, count, tolerance, difference);
  }
}

}  // namespace

void add_pairs(const void* left, DType left_dtype, const void* right, DType right_dtype, std::int64_t first,
               std::size_t count, Tolerance tolerance, Difference& difference) {
  const auto add = [&](std::size_t at, std::size_t some, Difference& to) {
    add_some(static_cast<const std::byte*>(left) + at * element_size(left_dtype), left_dtype,
             static_cast<const std::byte*>(right) + at * element_size(right_dtype), right_dtype, some,
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

Difference compare(const TensorView& left, const TensorView& right, Tolerance tolerance) {
  if (is_complex(left.dtype) || is_complex(right.dtype)) {
    throw InvalidArgument("complex numbers have no order: expected arrays of real numbers");
  }
  const FloatEnvironment as_they_are;
  const Layout l(left, false);
  const Layout r(right, false);
  if (!std::equal(left.shape.begin(), left.shape.end(), right.shape.begin(), right.shape.end())) {
    throw InvalidArgument("expected two arrays of the same shape");
  }
  Difference difference;
  struct Gathered {
    alignas(64) std::array<std::byte, kBlock * 16> left, right;
  };
  const auto gathered = std::make_unique_for_overwrite<Gathered>();
  for (std::int64_t first = 0; first < l.count(); first += static_cast<std::int64_t>(kBlock)) {
    const auto count = static_cast<std::size_t>(std::min<std::int64_t>(kBlock, l.count() - first));
    const auto piece = [&](const Layout& layout, std::byte* room) -> const void* {
      if (layout.contiguous()) return layout.at(first);
      layout.gather(first, count, room);
      return room;
    };
    add_pairs(piece(l, gathered->left.data()), left.dtype, piece(r, gathered->right.data()), right.dtype,
              first, count, tolerance, difference);
  }
  return difference;
}

}  // namespace msprobe::rl

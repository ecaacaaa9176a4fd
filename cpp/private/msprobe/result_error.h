// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "msprobe/export.h"
#include "msprobe/tensor_view.h"
#include "msprobe/thread_pool.h"

/// How far the result of an operator is from a reference that is known better: every measure that one of the
/// accuracy standards asks for, taken in one pass over both tensors.
namespace msprobe::metrics {

/// With what errors are measured. Which numbers hold for an operator and a dtype is the caller's concern.
struct ResultOptions {
  /// Added to |b| where an error is divided by it.
  double epsilon = 0;
  /// A reference value b with |b| <= small_value is *small*, any other finite one is *normal*.
  double small_value = 0;
  /// A small value is wrong when its absolute error is larger than this.
  double small_error = 0;
  /// A normal value is wrong when its relative error is larger than this; so is a value that is infinite on
  /// one side, after both were clipped to the range of the result's dtype.
  double relative_error = 0;
  /// Errors above so many ULP are counted in `ulp_errors`.
  double ulp_limit = 1;
  /// The ULP of a dtype: its least normal exponent and the bits of its mantissa.
  int ulp_min_exponent = -126;
  int ulp_mantissa_bits = 23;
  /// The exponent that stands for that of a reference value 0. The true one is `ulp_min_exponent`.
  int ulp_zero_exponent = -126;

  /// A bound for each error: constant + value * |b| + terms * t, with t the element of the tensor `terms`
  /// (without one: 0). `max_excess` is measured against it. All zero: there is no bound.
  double bound_constant = 0;
  double bound_value = 0;
  double bound_terms = 0;
};

/// Of results d next to reference values b, both as doubles. A pair is *finite* when d is and b, rounded to
/// the dtype of d (bfloat16: float32), is: a reference value beyond its range is an infinity there. Sums,
/// errors and the counts of small, normal, greater and less are those of finite pairs.
struct ResultError {
  std::int64_t count = 0;
  std::int64_t finite_pairs = 0;
  std::int64_t result_nan = 0;          // d is NaN
  std::int64_t result_infinite = 0;     // d is infinite
  std::int64_t reference_nan = 0;       // b is NaN
  std::int64_t reference_infinite = 0;  // b is infinite, before it is rounded
  std::int64_t non_finite_errors = 0;   // not both NaN, nor the same after clipping; see ResultOptions
  std::int64_t unequal = 0;             // d != b (NaN differs from everything)
  std::int64_t result_zeros = 0;
  std::int64_t reference_zeros = 0;

  std::int64_t greater = 0;  // d > b, b rounded to the dtype of d (bfloat16: float32)
  std::int64_t less = 0;
  std::int64_t small = 0;
  std::int64_t small_errors = 0;
  std::int64_t normal = 0;
  std::int64_t normal_errors = 0;
  std::int64_t below_hundredth = 0;  // relative error < 0.01, of finite pairs small or normal
  std::int64_t below_thousandth = 0;
  std::int64_t below_ten_thousandth = 0;

  double dot = 0;                // sum of d * b
  double result_squares = 0;     // sum of d^2
  double reference_squares = 0;  // sum of b^2
  double max_result = 0;         // largest |d|
  double max_reference = 0;      // largest |b|

  double max_absolute = 0;              // largest |d - b|
  std::int64_t max_absolute_index = 0;  // in C order, of the first pair that has it; 0 when all are equal
  double squared_error = 0;             // sum of |d - b|^2
  double normal_squared_error = 0;      // the same of normal values
  double max_relative = 0;              // largest |d - b| / (|b| + epsilon) of normal values
  double sum_relative = 0;              // of normal values

  double max_ulp = 0;
  double sum_ulp = 0;
  double ulp_percentile_99 = 0;  // at least 99 % of the finite pairs are at or below; up to 7 % too large
  std::int64_t ulp_errors = 0;

  double max_excess = 0;              // largest error divided by its bound; infinite where the bound is 0
  std::int64_t max_excess_index = 0;  // in C order
  double max_bound = 0;               // the largest bound of a finite pair
};

/// Measures `result` against `reference`: two real tensors of the same shape, any dtypes, any strides.
/// `terms`: null, or a real tensor of that shape, for the bound.
///
/// Integers and bools of one dtype are compared as they are, all others in float64. Sums do not depend on the
/// number of threads. Independent of the caller's flush-to-zero mode. Reads the views only.
///
/// Thread-safe. Throws InvalidArgument for different shapes or a bad one, UnsupportedError for complex
/// tensors (whose parts are tensors of their own).
MSPROBE_API ResultError measure_result(const TensorView& result, const TensorView& reference,
                                       const ResultOptions& options, const TensorView* terms = nullptr,
                                       ThreadPool* pool = nullptr);

}  // namespace msprobe::metrics

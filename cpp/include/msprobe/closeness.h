// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How far two tensors are apart, from what files say of them. One rule for dumps, training states, graphs
/// and pages.
///
/// The measure is the relative L2 distance, |a - b| / |b| with the norms over all elements: 1 is "as far as
/// the tensor is long", the unit roundoff of a dtype is "every element is rounded otherwise". What is
/// recorded seldom tells it exactly, so a Distance is an interval: whole tensors give one number, sketches an
/// estimate, four statistics a lower bound and a guess, equal checksums 0.

#include <cstdint>
#include <optional>
#include <string_view>

#include "msprobe/dtype.h"
#include "msprobe/export.h"
#include "msprobe/stats.h"

namespace msprobe::metrics {

/// What is known of one tensor. A statistic that is absent was not recorded or is no number.
struct TensorFacts {
  std::optional<DType> dtype;  // nullopt: one that is not known here
  double count = 0;            // elements
  std::optional<double> max, min, mean, norm;
  /// `mean` and `norm` are sums in double; otherwise they were rounded to `dtype`, at least to float32.
  bool is_exact = false;
  std::optional<stats::Sketch> sketch;
  /// Of the elements that are not finite. nullopt: only the statistics tell, by being NaN or infinite.
  std::optional<stats::NonFinite> non_finite;
  std::string_view checksum;  // empty: none

  /// Root mean square of the finite elements; 0: unknown.
  double typical() const noexcept;
  /// The largest magnitude of a finite element, as far as it is known.
  double largest() const noexcept;
};

/// How far two values are apart.
struct Distance {
  /// The relative L2 distance: the best guess, and between what it lies. Infinite: the values differ and
  /// cannot be measured (integers and flags without a sketch, NaN or infinities on one side only, another
  /// shape). `high` alone is infinite where nothing is known of what may differ (NaN on both sides, and
  /// nothing else recorded).
  double value = 0;
  double low = 0;
  double high = 0;
  /// Relative difference of what random errors of single elements leave nearly alone: of the norms, and of
  /// the means (times the square root of the count, so that it is a part of the L2 distance). 0 where they
  /// are not known to double precision.
  double bias = 0;
  /// Which share of the squared distance falls on the largest of the eight sums of the sketches: 1 is a
  /// difference of a single element, independent errors of many have about 0.35. 0: there are no sketches.
  double peak = 0;
  /// The larger of the two L2 norms, or what stood in for it: what all these are relative to.
  double norm = 0;
  /// Nothing that was recorded differs.
  bool equal = true;
};

/// A gradient is measured against this part of the typical gradient (root mean square of the elements, median
/// over all parameters): much smaller ones are what rounding leaves where the exact result is 0, as of the
/// bias of attention keys or of a bias in front of a normalisation.
inline constexpr double kNegligibleGradient = 0.1;

/// 2^-p for a dtype with p bits of significand: the largest relative error of rounding to it (IEEE 754; N.
/// Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 2.1). 0 for integers, bools and what
/// is unknown.
MSPROBE_API double unit_roundoff(std::optional<DType> dtype) noexcept;

/// The distance of two tensors of one shape. `floor`: elements are measured against this size at least; below
/// it there is nothing but rounding.
MSPROBE_API Distance distance(const TensorFacts& target, const TensorFacts& reference, double floor = 0);

/// The same where the L2 norm of the difference was computed from the elements. `is_equal`: all elements are.
MSPROBE_API Distance distance_of_elements(const TensorFacts& target, const TensorFacts& reference,
                                          double difference_norm, bool is_equal, double floor = 0);

/// The distance of two numbers, of float32 unless they say otherwise.
MSPROBE_API Distance distance_of_numbers(double target, double reference);

}  // namespace msprobe::metrics

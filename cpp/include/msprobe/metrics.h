// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Two tensors next to each other: measured element by element, or compared by what files say of them.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "msprobe/export.h"
#include "msprobe/stats.h"
#include "msprobe/tensor_view.h"
#include "msprobe/thread_pool.h"

namespace msprobe::metrics {

// ---- element by element

struct Options {
  /// float16 as NumPy treats it: relative errors of two float16 tensors come about in float16 arithmetic, and
  /// the 2^-52 that is added where the reference is zero vanishes on a float16 side. Errors there are Inf,
  /// or NaN where both sides are zero.
  bool float16_arithmetic = false;

  /// Drop the imaginary parts of complex tensors.
  bool real_part_only = false;

  /// Find `first_difference` and the indices of the extremes, which reads some blocks a second time. Without
  /// it they are nullopt.
  bool positions = true;
};

/// One side of a pair. Sums and extremes are those of the finite pairs.
struct Side {
  std::int64_t nan_count = 0;  // complex: an element is NaN when a part is NaN, else Inf when a part is Inf
  std::int64_t inf_count = 0;  // of both signs
  double sum = 0;
  double sum_imag = 0;        // complex only
  double squares = 0;         // sum of |x|^2
  std::optional<double> min;  // nullopt without finite pairs, and of complex tensors
  std::optional<double> max;
};

/// What is to be known of two tensors next to each other, unrounded: l2 distance = sqrt(squared_distance),
/// cosine = dot / sqrt(target.squares * reference.squares), mean = sum / finite_pairs.
///
/// A pair is *finite* when both of its elements are. Only finite pairs count in sums, extremes and errors;
/// the others are counted by what they are. So two NaN are no error, and a NaN against a number is seen in
/// `one_sided` alone.
///
/// Errors are of n (the target) next to b (the reference). The absolute error |n - b|, and everything that is
/// summed, is in float64. The relative error |(n - b) / b| is in the tensors' own type: in float64 where a
/// side is float64, integer, bool or complex, else in float32 (float16: see Options). Where b is 0, both n
/// and b are increased by 2^-52 first. The thresholds 0.001 and 0.005 are rounded to the type of the relative
/// errors.
///
/// Precision: elements are exact in float64 (64-bit integers are rounded). Sums of float64 elements beyond
/// 1e154 overflow to Inf, as in NumPy; nothing of a smaller type does.
struct PairMetrics {
  std::int64_t count = 0;
  std::int64_t finite_pairs = 0;
  std::int64_t both_non_finite = 0;   // of these, `different_kind` are Inf against NaN
  std::int64_t different_kind = 0;    // the sign of Inf is not looked at
  std::int64_t one_sided = 0;         // NaN or Inf against a finite number
  std::int64_t equal_bits = 0;        // of different dtypes: after conversion to one
  std::int64_t below_thousandth = 0;  // finite pairs with a relative error < 0.001
  std::int64_t below_five_thousandths = 0;
  std::int64_t relative_nan = 0;  // finite pairs without a relative error: 0 / 0 in float16

  Side target;
  Side reference;
  double dot = 0;  // complex: the real part of sum(conj(n) * b)
  double squared_distance = 0;
  double max_absolute = 0;
  double max_relative = 0;  // NaN left out

  // Positions in C order of the first such pair; nullopt where all bits are equal, and where the error is 0.
  std::optional<std::int64_t> first_difference;
  std::optional<std::int64_t> max_absolute_index;
  std::optional<std::int64_t> max_relative_index;
};

/// Compares two tensors of the same shape, in one pass over both; any two dtypes, any strides.
///
/// Complex: both sides are taken as complex numbers when one is; errors are magnitudes.
///
/// Large tensors are split over `pool` (null: the calling thread does everything). The result is bit-equal
/// for every number of threads, and for all instruction sets with fused multiply-add (AVX2, AVX-512, NEON).
/// Independent of the caller's flush-to-zero mode. Reads the views only and keeps no reference to them.
///
/// Thread-safe. Throws InvalidArgument for different shapes or a bad one.
MSPROBE_API PairMetrics compare(const TensorView& target, const TensorView& reference,
                                const Options& options = {}, ThreadPool* pool = nullptr);

/// The largest singular value of a matrix, and how many directions carry it.
struct Spectrum {
  double spectral_norm = 0;
  double stable_rank = 0;  // sum of the squared singular values / the largest one; NaN for a matrix of zeros
};

/// Of a matrix of two dimensions, through the eigenvalues of its Gram matrix over the shorter side: in
/// double, so accurate to some 1e-8 of the largest. NaN where an element is NaN or infinite. Throws
/// InvalidArgument for a tensor of other dimensions, an empty or a complex one.
MSPROBE_API Spectrum spectrum(const TensorView& matrix);
/// The same of a Gram matrix that is known, as of a matrix on a device: square and symmetric.
MSPROBE_API Spectrum spectrum_of_gram(const TensorView& gram);

/// Appends the metrics of the elements that follow those of `whole`: a tensor that lies in several pieces is
/// compared piece by piece.
MSPROBE_API void append(PairMetrics& whole, const PairMetrics& part);

/// One pair of elements. Of complex tensors the real parts.
struct ElementPair {
  std::int64_t index;  // in C order
  double target;
  double reference;
};

/// Pairs that are not close.
struct Outliers {
  std::int64_t count = 0;
  std::vector<ElementPair> first;
};

/// Counts the pairs with |target - reference| > absolute + relative * |reference|, the rule of
/// numpy.allclose, and returns the first `most` of them. Equal infinities are close, NaN is close to nothing.
/// In float64. Reads the views only. Thread-safe. Throws InvalidArgument for different shapes or a bad one.
MSPROBE_API Outliers outliers(const TensorView& target, const TensorView& reference, double relative,
                              double absolute, std::size_t most);

/// Elements [first, first + count) in C order, as float64; of complex tensors the real parts. Fewer where the
/// tensor ends. Throws InvalidArgument for a bad shape.
MSPROBE_API std::vector<double> values(const TensorView& view, std::int64_t first, std::size_t count);

// ---- from what files say
//
// How far two tensors are apart, from what files say of them. One rule for dumps, training states, graphs
// and pages.
//
// The measure is the relative L2 distance, |a - b| / |b| with the norms over all elements: 1 is "as far as
// the tensor is long", the unit roundoff of a dtype is "every element is rounded otherwise". What is
// recorded seldom tells it exactly, so a Distance is an interval: whole tensors give one number, sketches an
// estimate, four statistics a lower bound and a guess, equal digests or checksums 0.

/// What is known of one tensor. A statistic that is absent was not recorded or is no number.
struct TensorFacts {
  std::optional<DType> dtype;  // nullopt: one that is not known here
  double count = 0;            // elements
  std::optional<double> max, min, mean, norm;
  /// There are sums in double: those of the sketch, else `mean` and `norm`. Otherwise these are sums in
  /// float32, or were rounded to `dtype`. Of two tensors of which only one is exact, `mean` and `norm` are
  /// compared.
  bool is_exact = false;
  std::optional<stats::Sketch> sketch;
  /// Of the bits of all elements; sketches that come with one are comparable with others that do, whatever
  /// the dtypes and devices. Those without are of an earlier msprobe, comparable with their like of one
  /// dtype.
  std::optional<std::uint64_t> digest;
  /// Of the elements that are not finite. nullopt: only the statistics tell, by being NaN or infinite.
  std::optional<stats::NonFinite> non_finite;
  std::string_view checksum;  // empty: none

  /// Root mean square of the finite elements; 0: unknown.
  double typical() const noexcept;
  /// The sum of the squares of its elements.
  double squares() const noexcept { return count * typical() * typical(); }
  /// The largest magnitude of a finite element, as far as it is known.
  double largest() const noexcept;
};

/// How far two values are apart.
struct Distance {
  /// The relative L2 distance: the best guess, and between what it lies. Infinite: the values differ and
  /// cannot be measured (integers and flags without a sketch, NaN or infinities on one side only, another
  /// shape). `high` alone is infinite where nothing is known of what may differ (NaN on both sides, and
  /// nothing else recorded; no number of one of the two).
  double value = 0;
  double low = 0;
  double high = 0;
  /// What to reckon with where this goes into something else: `value` where it was measured or estimated,
  /// `high` where only bounds are known.
  double expected = 0;
  /// Relative difference of what random errors of single elements leave nearly alone: of the norms, and of
  /// the means (times the square root of the count, so that it is a part of the L2 distance). 0 where they
  /// are not known to double precision.
  double bias = 0;
  bool knows_bias = true;
  /// Which share of the squared distance falls on the largest of the eight sums of the sketches: 1 is a
  /// difference of a single element, independent errors of many have about 0.35. 0: there are no sketches.
  double peak = 0;
  /// The larger of the two L2 norms, or what stood in for it: what all these are relative to.
  double norm = 0;
  /// Nothing that was recorded differs.
  bool equal = true;
  /// What was recorded differs by no more than the rounding of sums: the tensors may be equal all the same.
  bool may_be_equal = false;

  /// The bias to reckon with where this goes into something else: all of it may be, where it is not known.
  constexpr double most_bias() const noexcept { return knows_bias ? bias : high; }

  /// Of values that differ, and cannot be measured.
  static constexpr Distance unmeasurable() noexcept {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    Distance result;
    result.value = result.low = result.high = result.expected = infinity;
    result.equal = false;
    return result;
  }
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
/// it there is nothing but rounding. A tensor of which nothing was recorded is held against nothing.
MSPROBE_API Distance distance(const TensorFacts& target, const TensorFacts& reference, double floor = 0);

/// The same where the L2 norm of the difference was computed from the elements. `is_equal`: all elements are.
MSPROBE_API Distance distance_of_elements(const TensorFacts& target, const TensorFacts& reference,
                                          double difference_norm, bool is_equal, double floor = 0);

/// The distance of two numbers, of float32 unless they say otherwise.
MSPROBE_API Distance distance_of_numbers(double target, double reference);

}  // namespace msprobe::metrics

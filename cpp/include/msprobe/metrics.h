// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "msprobe/export.h"
#include "msprobe/tensor_view.h"
#include "msprobe/thread_pool.h"

namespace msprobe::metrics {

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

}  // namespace msprobe::metrics

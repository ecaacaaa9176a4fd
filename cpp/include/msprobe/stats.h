// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "msprobe/export.h"
#include "msprobe/tensor_view.h"
#include "msprobe/thread_pool.h"

namespace msprobe::stats {

/// What summarize() computes beyond the basic statistics. Every request costs extra work, not an extra read
/// of memory.
struct SummaryOptions {
  /// Checksum of the elements in C order, little endian.
  enum class Checksum : std::uint8_t {
    kNone,
    kNative,   // of the bytes as they are
    kFloat32,  // of the elements converted to float32 (round to nearest even); complex: both parts converted
  };
  Checksum checksum = Checksum::kNone;

  /// When not empty: strictly ascending, without NaN. Element counts are taken of the intervals
  /// (-inf, b0], (b0, b1], ..., (bn-1, inf). Not defined for complex tensors (InvalidArgument).
  std::span<const float> bounds;

  /// When not empty: receives one bit per element, 1 where the element is > 0, else 0 (so +0, -0, NaN give
  /// 0). Element i in C order is bit i % 8 of byte i / 8; bits after the last element are 0. Needs
  /// sign_bytes(count) bytes or more. Not defined for complex tensors (InvalidArgument).
  std::span<std::uint8_t> signs;

  /// Whether Summary::sketch is wanted.
  bool sketch = false;

  /// Where the tensor lies in a larger one, for its sketch: sums and digest are then taken at the places that
  /// the elements have there, so that those of all parts add up to those of the whole.
  struct Shard {
    std::span<const std::int64_t> shape;    // of the larger tensor; empty: there is none
    std::span<const std::int64_t> offsets;  // of the first element
  };
  Shard shard;

  /// Whether `sum_abs` and `fourth_powers` are taken.
  bool powers = false;

  /// When above 0: `small_count` is taken, of the elements with |x| < small. Float32 and smaller types
  /// compare in float32.
  double small = 0;
};

/// A few numbers by which two tensors can be compared without their elements, whatever their layout and the
/// device that made them (docs/formats/dump.md, "Sketch").
///
/// The sums: of the elements with signs that look random but depend on their place alone, each element in one
/// of eight. They are linear (the sketch of a difference is the difference of the sketches), and the sum of
/// their squares estimates the sum of the squares of the elements, to a factor of about 1.5 (N. Alon, Y.
/// Matias, M. Szegedy: The space complexity of approximating the frequency moments, JCSS 58, 1999; M.
/// Charikar, K. Chen, M. Farach-Colton: Finding frequent items in data streams, TCS 312, 2004). So distance()
/// sees what maximum, minimum, mean and norm do not: a permutation, other signs, one element. Of finite
/// elements only: NaN and infinities count as 0. A complex element is two, real and imaginary part. Up to 32
/// elements of float32 and smaller types are added in float before they go into a double, so two devices,
/// which add in another order, are apart by rounding.
///
/// The digest: of the bits of all elements and their places. Equal for two tensors of one dtype and shape
/// when all bits are; for others in one case of 2^64, and of 2^33 at the worst, where single bits alone
/// differ that are all the highest of their words. No sums of floats: exact in any order.
struct Sketch {
  static constexpr std::size_t kSums = 8;
  std::array<double, kSums> sums{};
  std::uint64_t digest = 0;
  double min = 0;  // of the finite elements; 0 where there is none, and of complex tensors
  double max = 0;
  double mean = 0;
  double norm = 0;
};

/// How many elements are not finite. A complex element counts once.
struct NonFinite {
  std::int64_t nan = 0;
  std::int64_t pos_inf = 0;
  std::int64_t neg_inf = 0;

  bool any() const noexcept { return nan != 0 || pos_inf != 0 || neg_inf != 0; }
  friend bool operator==(const NonFinite&, const NonFinite&) = default;
};

/// About the L2 norm of the difference of the two tensors.
MSPROBE_API double distance(const Sketch& a, const Sketch& b) noexcept;

/// Bytes that `SummaryOptions::signs` needs for `count` elements.
constexpr std::size_t sign_bytes(std::int64_t count) { return (static_cast<std::size_t>(count) + 7) / 8; }

/// Statistics of one tensor.
///
/// NaN and Inf: one NaN makes `min`, `max`, `mean` and `norm` NaN, as torch.max and torch.norm do; Inf takes
/// part as the largest value. An empty tensor has `count == 0`, `norm == 0` and no min, max, mean. bool
/// counts as 0 and 1.
///
/// Precision: `min` and `max` are exact (64-bit integers are rounded to double at the very end). Sums are
/// kept in double; elements of float32 and of 16-bit floats are first added in float, 16 and 32 at a time,
/// unless they are so large or small that their squares would overflow or underflow there: relative error of
/// `norm`, `sum_abs` and `fourth_powers` below 1e-6. Complex: no min and max; `mean` is the real and
/// `mean_imag` the imaginary part; an element is NaN when a part is NaN, else +Inf when a part is +Inf, else
/// -Inf when a part is -Inf; zero when both parts are; norm = sqrt(sum |z|^2).
struct Summary {
  std::int64_t count = 0;
  std::optional<double> min;
  std::optional<double> max;
  std::optional<double> mean;
  std::optional<double> mean_imag;  // complex only
  double norm = 0;                  // L2: sqrt of the sum of squares over all elements
  std::int64_t nan_count = 0;
  std::int64_t pos_inf_count = 0;
  std::int64_t neg_inf_count = 0;
  std::int64_t zero_count = 0;              // +0 and -0
  double sum = 0;                           // complex: of the real parts
  double squares = 0;                       // sum of |x|^2
  std::optional<double> sum_abs;            // sum of |x|, on request
  std::optional<double> fourth_powers;      // sum of |x|^4, on request
  std::optional<std::int64_t> small_count;  // on request
  std::optional<std::uint32_t> crc32;       // zlib's polynomial (RFC 1952), on request
  /// bounds.size() + 1 entries on request; NaN is in the last interval.
  std::vector<std::int64_t> interval_counts;
  std::optional<Sketch> sketch;  // on request, of a tensor with elements
};

/// Summary of one tensor in one pass over its memory, with the widest vector instructions of this processor.
///
/// Large tensors are split over `pool` (null: the calling thread does everything). The result is bit-equal
/// for every number of threads. Independent of the caller's flush-to-zero mode. Reads `view` only and keeps
/// no reference to it.
///
/// Thread-safe. Throws InvalidArgument for bad options or a bad shape.
MSPROBE_API Summary summarize(const TensorView& view, const SummaryOptions& options = {},
                              ThreadPool* pool = nullptr);

/// Of a tensor of `count` elements what the summaries of its parts say, which are disjoint: shards of a
/// weight on several ranks, parts of a batch. In any order, with the same result to the bit. `padding`: so
/// many elements of the parts are zeros that are none of the tensor. `integers`: sums are whole numbers, and
/// exact up to 2^53. No crc32, and intervals where there is no padding. The sketch is there where that of
/// each part was taken at its place in the whole (SummaryOptions::shard), which the caller knows; sums and
/// digest are then those of the whole. Nothing where the parts do not cover it.
MSPROBE_API std::optional<Summary> joined(std::span<const Summary> parts, std::int64_t count,
                                          std::int64_t padding = 0, bool integers = false);

/// Of the sum of tensors of one shape, as ranks have them before an all-reduce, what is linear: mean and sums
/// of the sketch. `norm` is what these make likely; the digest is of them, in place of that of the elements.
/// In any order, with the same result to the bit. Nothing where one has no sketch, or elements that are not
/// finite.
MSPROBE_API std::optional<Summary> added_up(std::span<const Summary> summands);

/// One tensor of summarize_all() and what is wanted of it.
struct Request {
  TensorView view;
  SummaryOptions options;
};

/// Summaries of many tensors, equal to those of summarize(), with the work of all tensors shared evenly among
/// the threads: the call to use for the gradients of a whole model.
MSPROBE_API std::vector<Summary> summarize_all(std::span<const Request> requests, ThreadPool* pool = nullptr);

/// Two tensors of the same shape, next to each other. All sums are in double. A NaN on either side makes the
/// sums NaN; its pair has no sign. Not defined for complex tensors.
struct PairSums {
  std::int64_t count = 0;
  double left_squares = 0;
  double right_squares = 0;
  double dot = 0;
  double squared_distance = 0;
  std::int64_t sign_balance = 0;  // sum of sign(left) * sign(right): pairs that agree less those that do not
};

struct Pair {
  TensorView left;
  TensorView right;
};

/// The sums of many pairs, in one pass over both sides of each, with the work of all shared evenly among the
/// threads; bit-equal for every number of threads. Any two dtypes, any strides. Reads the views only.
/// Thread-safe. Throws InvalidArgument for different shapes, a bad one, or a complex tensor.
MSPROBE_API std::vector<PairSums> pair_sums(std::span<const Pair> pairs, ThreadPool* pool = nullptr);

/// Adds those of another piece of the same two tensors.
MSPROBE_API void merge(PairSums& whole, const PairSums& part);

/// One scalar of a Summary. The table fields() is the one place that names them: bindings, reports and
/// documentation iterate over it, so a new statistic appears everywhere by adding its row.
struct Field {
  std::string_view name;
  std::string_view meaning;
  bool integral;                                   // a count, to be shown without decimals
  std::optional<double> (*value)(const Summary&);  // nullopt: not defined for this tensor
};
MSPROBE_API std::span<const Field> fields() noexcept;

/// Name of the instruction set summarize() uses here, e.g. "AVX3" (AVX-512), "AVX2", "NEON". The environment
/// variable MSPROBE_INSTRUCTION_SET, read once, chooses another one that this processor has.
MSPROBE_API std::string_view instruction_set();

}  // namespace msprobe::stats

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/result_error.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/convert.h"
#include "base/float_environment.h"
#include "base/layout.h"
#include "base/non_finite.h"
#include "base/shape_text.h"
#include "metrics/kernels.h"
#include "msprobe/error.h"

namespace msprobe::metrics {
namespace {

// ------------------------------------------------------------------------------------ rounding to a dtype

struct Format {
  int mantissa_bits;
  int min_exponent;  // of normal numbers
  double max;        // the largest finite number
};

constexpr Format kNotRounded = {52, -1022, std::numeric_limits<double>::max()};

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return {23, -126, std::numeric_limits<float>::max()};
    case DType::kFloat16: return {10, -14, 65504};
    case DType::kFloat8E4M3FN: return {3, -6, 448};
    case DType::kFloat8E4M3FNUZ: return {3, -7, 240};
    case DType::kFloat8E5M2: return {2, -14, 57344};
    case DType::kFloat8E5M2FNUZ: return {2, -15, 57344};
    case DType::kFloat8E8M0FNU: return {0, -127, 0x1p127};
    default: return kNotRounded;
  }
}

// The exponent of |x|; of zero and numbers below the range of normal doubles -1023.
int exponent_of(double x) { return static_cast<int>((std::bit_cast<std::uint64_t>(x) >> 52) & 0x7FF) - 1023; }

double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

// To the nearest number of the format, ties to even; beyond its range infinite.
double rounded(double x, const Format& format) {
  const double step = power_of_two(std::max(exponent_of(x), format.min_exponent) - format.mantissa_bits);
  const double nearest = std::nearbyint(x / step) * step;
  return std::abs(nearest) > format.max ? std::copysign(kInfinity, nearest) : nearest;
}

void round_all(const double* from, const Format& format, DType dtype, std::size_t count, double* out) {
  if (dtype == DType::kFloat32) {
    for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<double>(static_cast<float>(from[i]));
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = std::isfinite(from[i]) ? rounded(from[i], format) : from[i];
  }
}

// ------------------------------------------------------------------------------------------- percentiles

// Counts numbers >= 0 by the leading bits of their float: 16 buckets between two powers of two.
class Histogram {
 public:
  void add(double x) { ++buckets_[index_of(x)]; }

  void append(const Histogram& other) {
    for (std::size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  }

  // The upper end of the bucket up to which `share` of `count` numbers lie.
  double percentile(double share, std::int64_t count) const {
    const auto wanted = static_cast<std::int64_t>(std::ceil(share * static_cast<double>(count)));
    std::int64_t seen = 0;
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      seen += buckets_[i];
      if (seen >= wanted && seen > 0) return i == 0 ? 0 : upper_end(i);
    }
    return 0;
  }

 private:
  static constexpr int kDropped = 23 - 4;

  static std::size_t index_of(double x) {
    return std::bit_cast<std::uint32_t>(static_cast<float>(x)) >> kDropped;
  }
  static double upper_end(std::size_t index) {
    if (index + 1 >= (0x7F800000U >> kDropped)) return kInfinity;
    return std::bit_cast<float>(static_cast<std::uint32_t>(index + 1) << kDropped);
  }

  std::array<std::int64_t, (0x7F800000U >> kDropped) + 1> buckets_ = {};
};

// ------------------------------------------------------------------------------------------------- pieces

// Memory of one thread for one side of a block.
struct DoublesScratch {
  alignas(64) std::array<std::byte, kBlock * sizeof(double)> gathered;
  alignas(64) std::array<double, kBlock> converted;
};

// Some consecutive elements of a tensor without gaps, in its own dtype.
const void* raw_piece(const Layout& layout, std::int64_t first, std::size_t count, DoublesScratch& scratch) {
  if (layout.contiguous()) return layout.at(first);
  layout.gather(first, count, scratch.gathered.data());
  return scratch.gathered.data();
}

const double* doubles_of(const void* raw, DType dtype, std::size_t count, DoublesScratch& scratch) {
  if (dtype == DType::kFloat64) return static_cast<const double*>(raw);
  convert_to_double(raw, dtype, count, scratch.converted.data());
  return scratch.converted.data();
}

// NumPy, in which mindstudio-probe counts, has no bfloat16.
DType held_as(DType dtype) { return dtype == DType::kBFloat16 ? DType::kFloat32 : dtype; }

// The tensors, checked and ready.
struct Sides {
  Layout result;
  Layout reference;
  std::optional<Layout> terms;
  DType result_dtype;
  DType reference_dtype;
  DType terms_dtype = DType::kFloat64;
  DType rounded_dtype;  // of the reference next to the result
  Format format;        // of it
  bool exact;           // integers of one dtype
  const ResultOptions& options;

  Sides(const TensorView& d, const TensorView& b, const ResultOptions& with, const TensorView* t)
      : result(d, false),
        reference(b, false),
        result_dtype(d.dtype),
        reference_dtype(b.dtype),
        rounded_dtype(held_as(d.dtype)),
        format(format_of(rounded_dtype)),
        exact(d.dtype == b.dtype && !is_floating(d.dtype)),
        options(with) {
    if (t == nullptr) return;
    terms.emplace(*t, false);
    terms_dtype = t->dtype;
  }

  bool rounds() const { return format.mantissa_bits != kNotRounded.mantissa_bits; }
  bool has_bound() const {
    return options.bound_constant != 0 || options.bound_value != 0 || options.bound_terms != 0;
  }
};

// ----------------------------------------------------------------------------------------------- segments

using Lanes = std::array<double, kLanes>;

// Always in the same order.
double fold(Lanes lanes) {
  for (std::size_t width = kLanes / 2; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

struct Sums {
  Lanes dot{}, result_squares{}, reference_squares{}, squared_error{}, normal_squared_error{}, relative{},
      ulp{};
};

// The measures of consecutive pairs; positions count from the first of them.
struct Part {
  ResultError error;
  Histogram ulps;
};

class ErrorSegment {
 public:
  explicit ErrorSegment(const Sides& sides) : sides_(sides) {}

  Part run(std::int64_t begin, std::int64_t end) {
    part_.error.count = end - begin;
    for (std::int64_t first = begin; first < end; first += static_cast<std::int64_t>(kBlock)) {
      const auto count = static_cast<std::size_t>(std::min<std::int64_t>(kBlock, end - first));
      at_ = first - begin;
      add_block(first, count);
    }
    finish();
    return part_;
  }

 private:
  void add_block(std::int64_t first, std::size_t count) {
    const void* const raw_result = raw_piece(sides_.result, first, count, result_scratch_);
    const void* const raw_reference = raw_piece(sides_.reference, first, count, reference_scratch_);
    const double* const d = doubles_of(raw_result, sides_.result_dtype, count, result_scratch_);
    const double* const b = doubles_of(raw_reference, sides_.reference_dtype, count, reference_scratch_);
    const double* c = b;
    if (sides_.rounds()) {
      round_all(b, sides_.format, sides_.rounded_dtype, count, rounded_.data());
      c = rounded_.data();
    }
    if (sides_.exact) {
      const std::size_t item = element_size(sides_.result_dtype);
      part_.error.unequal +=
          static_cast<std::int64_t>(count) - kernels().count_equal(raw_result, raw_reference, count, item);
    }
    classify(d, b, c, count);
    add_sums(d, b, count);
    if (sides_.has_bound()) add_excess(d, b, terms_of(first, count), count);
  }

  const double* terms_of(std::int64_t first, std::size_t count) {
    if (!sides_.terms) return nullptr;
    const void* const raw = raw_piece(*sides_.terms, first, count, terms_scratch_);
    return doubles_of(raw, sides_.terms_dtype, count, terms_scratch_);
  }

  // Counts, and for each pair whether it is finite (weight 1 or 0) and whether it is normal.
  void classify(const double* d, const double* b, const double* c, std::size_t count) {
    ResultError& e = part_.error;
    std::int64_t finite = 0, greater = 0, less = 0, unequal = 0, small = 0, zeros_d = 0, zeros_b = 0;
    for (std::size_t i = 0; i < count; ++i) {
      // Numbers in place of bool: no branches.
      const int is_finite =
          static_cast<int>(std::abs(d[i]) < kInfinity) & static_cast<int>(std::abs(c[i]) < kInfinity);
      const int is_small = is_finite & static_cast<int>(std::abs(b[i]) <= sides_.options.small_value);
      finite += is_finite;
      greater += d[i] > c[i];
      less += d[i] < c[i];
      unequal += d[i] != b[i];
      zeros_d += d[i] == 0;
      zeros_b += b[i] == 0;
      small += is_small;
      weights_[i] = is_finite;
      normal_[i] = is_finite - is_small;
    }
    e.finite_pairs += finite;
    e.greater += greater;
    e.less += less;
    if (!sides_.exact) e.unequal += unequal;
    e.result_zeros += zeros_d;
    e.reference_zeros += zeros_b;
    e.small += small;
    e.normal += finite - small;
    all_finite_ = std::cmp_equal(finite, count);
    if (!all_finite_) add_non_finite(d, b, c, count);
  }

  void add_non_finite(const double* d, const double* b, const double* c, std::size_t count) {
    ResultError& e = part_.error;
    const double most = sides_.format.max;
    for (std::size_t i = 0; i < count; ++i) {
      if (weights_[i] != 0) continue;
      e.result_nan += std::isnan(d[i]);
      e.result_infinite += std::isinf(d[i]);
      e.reference_nan += std::isnan(b[i]);
      e.reference_infinite += std::isinf(b[i]);
      if (std::isnan(d[i]) && std::isnan(c[i])) continue;
      const double clipped_d = std::clamp(d[i], -most, most);
      const double clipped_b = std::clamp(c[i], -most, most);
      const double scale = std::abs(clipped_b) + sides_.options.epsilon;
      const bool agrees = std::abs(clipped_d - clipped_b) / scale <= sides_.options.relative_error;
      e.non_finite_errors += !agrees;  // of a NaN nothing is true
    }
  }

  void add_sums(const double* d, const double* b, std::size_t count) {
    const std::size_t whole = count / kLanes * kLanes;
    if (all_finite_) {
      add_rows<true>(d, b, whole);
    } else {
      add_rows<false>(d, b, whole);
    }
    if (whole < count) {  // filled up with pairs that are not finite
      std::array<double, kLanes> last_d{};
      std::array<double, kLanes> last_b{};
      std::copy(d + whole, d + count, last_d.begin());
      std::copy(b + whole, b + count, last_b.begin());
      std::fill(weights_.begin() + static_cast<std::ptrdiff_t>(count),
                weights_.begin() + static_cast<std::ptrdiff_t>(whole + kLanes), 0.0);
      std::fill(normal_.begin() + static_cast<std::ptrdiff_t>(count),
                normal_.begin() + static_cast<std::ptrdiff_t>(whole + kLanes), 0.0);
      offset_ = whole;
      add_rows<false>(last_d.data(), last_b.data(), kLanes);
      offset_ = 0;
    }
    add_percentiles(count);
  }

  template <bool finite>
  void add_rows(const double* d, const double* b, std::size_t count) {
    const ResultOptions& o = sides_.options;
    ResultError& e = part_.error;
    std::int64_t small_errors = 0, normal_errors = 0, hundredth = 0, thousandth = 0, ten_thousandth = 0,
                 ulp_errors = 0;
    Lanes most_d{}, most_b{}, most_error{}, most_relative{}, most_ulp{};
    for (std::size_t i = 0; i < count; i += kLanes) {
      for (std::size_t k = 0; k < kLanes; ++k) {
        const double w = finite ? 1.0 : weights_[offset_ + i + k];
        const double normal = normal_[offset_ + i + k];
        const double x = finite || w != 0 ? d[i + k] : 0.0;
        const double y = finite || w != 0 ? b[i + k] : 0.0;
        const double magnitude = std::abs(y);
        const double error = std::abs(x - y);
        const double square = error * error;
        const double relative = error / (magnitude + o.epsilon);
        const double normal_relative = normal != 0 ? relative : 0.0;
        const double ulp = error * ulps_per_unit(y);
        ulps_[offset_ + i + k] = ulp;
        sums_.dot[k] += x * y;
        sums_.result_squares[k] += x * x;
        sums_.reference_squares[k] += y * y;
        sums_.squared_error[k] += square;
        sums_.normal_squared_error[k] += normal != 0 ? square : 0.0;
        sums_.relative[k] += normal_relative;
        sums_.ulp[k] += ulp;
        most_d[k] = std::max(most_d[k], std::abs(x));
        most_b[k] = std::max(most_b[k], magnitude);
        most_error[k] = std::max(most_error[k], error);
        most_relative[k] = std::max(most_relative[k], normal_relative);
        most_ulp[k] = std::max(most_ulp[k], ulp);
        small_errors += (w != 0) & (normal == 0) & (error > o.small_error);
        normal_errors += (normal != 0) & (relative > o.relative_error);
        hundredth += (w != 0) & (relative < 0.01);
        thousandth += (w != 0) & (relative < 0.001);
        ten_thousandth += (w != 0) & (relative < 0.0001);
        ulp_errors += ulp > o.ulp_limit;
      }
    }
    e.small_errors += small_errors;
    e.normal_errors += normal_errors;
    e.below_hundredth += hundredth;
    e.below_thousandth += thousandth;
    e.below_ten_thousandth += ten_thousandth;
    e.ulp_errors += ulp_errors;
    raise(e.max_result, most_d);
    raise(e.max_reference, most_b);
    raise(e.max_relative, most_relative);
    raise(e.max_ulp, most_ulp);
    const double before = e.max_absolute;
    raise(e.max_absolute, most_error);
    if (e.max_absolute > before) find_absolute(d, b, count);
  }

  static void raise(double& most, const Lanes& found) {
    for (const double x : found) most = std::max(most, x);
  }

  double ulps_per_unit(double reference) const {
    const ResultOptions& o = sides_.options;
    const int own = reference == 0 ? o.ulp_zero_exponent : exponent_of(reference);
    // In two steps that stay in range, also for the ULP of float64.
    const int exponent = std::min(std::max(own, o.ulp_min_exponent), 1022);
    return power_of_two(-exponent) * power_of_two(o.ulp_mantissa_bits);
  }

  // The first pair of these rows that has the largest error so far.
  void find_absolute(const double* d, const double* b, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      if (weights_[offset_ + i] != 0 && std::abs(d[i] - b[i]) == part_.error.max_absolute) {
        part_.error.max_absolute_index = at_ + static_cast<std::int64_t>(offset_ + i);
        return;
      }
    }
  }

  void add_percentiles(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      if (all_finite_ || weights_[i] != 0) part_.ulps.add(ulps_[i]);
    }
  }

  void add_excess(const double* d, const double* b, const double* terms, std::size_t count) {
    const ResultOptions& o = sides_.options;
    ResultError& e = part_.error;
    for (std::size_t i = 0; i < count; ++i) {
      if (weights_[i] == 0) continue;
      const double of_terms = terms == nullptr ? 0.0 : o.bound_terms * terms[i];
      const double bound = o.bound_constant + o.bound_value * std::abs(b[i]) + of_terms;
      if (bound > e.max_bound) e.max_bound = bound;
      const double error = std::abs(d[i] - b[i]);
      if (error == 0) continue;
      // A bound that is no number bounds nothing.
      const double excess = std::isnan(bound) ? 0.0 : bound > 0 ? error / bound : kInfinity;
      if (excess > e.max_excess) {
        e.max_excess = excess;
        e.max_excess_index = at_ + static_cast<std::int64_t>(i);
      }
    }
  }

  void finish() {
    ResultError& e = part_.error;
    e.dot = fold(sums_.dot);
    e.result_squares = fold(sums_.result_squares);
    e.reference_squares = fold(sums_.reference_squares);
    e.squared_error = fold(sums_.squared_error);
    e.normal_squared_error = fold(sums_.normal_squared_error);
    e.sum_relative = fold(sums_.relative);
    e.sum_ulp = fold(sums_.ulp);
  }

  const Sides& sides_;
  Part part_;
  Sums sums_;
  std::int64_t at_ = 0;     // of the first pair of the block, in the segment
  std::size_t offset_ = 0;  // of the rows that are added, in the block
  bool all_finite_ = true;
  // Not initialised: each block writes what it reads.
  DoublesScratch result_scratch_;
  DoublesScratch reference_scratch_;
  DoublesScratch terms_scratch_;
  alignas(64) std::array<double, kBlock> rounded_;
  alignas(64) std::array<double, kBlock> weights_;
  alignas(64) std::array<double, kBlock> normal_;
  alignas(64) std::array<double, kBlock> ulps_;
};

// Adds the measures of the pairs that follow those of `whole`.
void append(Part& whole, const Part& part) {
  ResultError& w = whole.error;
  const ResultError& p = part.error;
  if (p.max_absolute > w.max_absolute) {
    w.max_absolute = p.max_absolute;
    w.max_absolute_index = w.count + p.max_absolute_index;
  }
  if (p.max_excess > w.max_excess) {
    w.max_excess = p.max_excess;
    w.max_excess_index = w.count + p.max_excess_index;
  }
  for (const auto field : {&ResultError::count,
                           &ResultError::finite_pairs,
                           &ResultError::result_nan,
                           &ResultError::result_infinite,
                           &ResultError::reference_nan,
                           &ResultError::reference_infinite,
                           &ResultError::non_finite_errors,
                           &ResultError::unequal,
                           &ResultError::result_zeros,
                           &ResultError::reference_zeros,
                           &ResultError::greater,
                           &ResultError::less,
                           &ResultError::small,
                           &ResultError::small_errors,
                           &ResultError::normal,
                           &ResultError::normal_errors,
                           &ResultError::below_hundredth,
                           &ResultError::below_thousandth,
                           &ResultError::below_ten_thousandth,
                           &ResultError::ulp_errors}) {
    w.*field += p.*field;
  }
  for (const auto field : {&ResultError::dot, &ResultError::result_squares, &ResultError::reference_squares,
                           &ResultError::squared_error, &ResultError::normal_squared_error,
                           &ResultError::sum_relative, &ResultError::sum_ulp}) {
    w.*field += p.*field;
  }
  for (const auto field : {&ResultError::max_result, &ResultError::max_reference, &ResultError::max_relative,
                           &ResultError::max_ulp, &ResultError::max_bound}) {
    w.*field = std::max(w.*field, p.*field);
  }
  whole.ulps.append(part.ulps);
}

void check(const TensorView& result, const TensorView& other, const char* name) {
  if (!std::equal(result.shape.begin(), result.shape.end(), other.shape.begin(), other.shape.end())) {
    throw InvalidArgument(std::string("measure_result: result and ") + name +
                          " must have the same shape, found " + shape_text(result.shape) + " and " +
                          shape_text(other.shape));
  }
  if (is_complex(result.dtype) || is_complex(other.dtype)) {
    throw UnsupportedError(std::string("measure_result: expected real tensors, found result of ") +
                           std::string(dtype_name(result.dtype)) + " and " + name + " of " +
                           std::string(dtype_name(other.dtype)));
  }
}

}  // namespace

ResultError measure_result(const TensorView& result, const TensorView& reference,
                           const ResultOptions& options, const TensorView* terms, ThreadPool* pool) {
  const FloatEnvironment standard;
  check(result, reference, "reference");
  if (terms != nullptr) check(result, *terms, "terms");
  const Sides sides(result, reference, options, terms);
  const std::int64_t count = sides.result.count();
  const auto run = [&](std::int64_t segment) {
    const FloatEnvironment standard;
    const std::int64_t begin = segment * kSegment;
    return ErrorSegment(sides).run(begin, std::min(begin + kSegment, count));
  };
  const std::int64_t segments = (count + kSegment - 1) / kSegment;
  Part whole;
  if (pool != nullptr && pool->size() > 1 && segments > 1) {
    std::vector<Part> parts(static_cast<std::size_t>(segments));
    pool->parallel_for(parts.size(), [&](std::size_t s) { parts[s] = run(static_cast<std::int64_t>(s)); });
    for (const Part& part : parts) append(whole, part);
  } else {
    for (std::int64_t s = 0; s < segments; ++s) append(whole, run(s));
  }
  ResultError& error = whole.error;
  error.ulp_percentile_99 = std::min(whole.ulps.percentile(0.99, error.finite_pairs), error.max_ulp);
  return error;
}

}  // namespace msprobe::metrics

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/convert.h"
#include "base/float_environment.h"
#include "base/layout.h"
#include "base/shape_text.h"
#include "metrics/kernels.h"
#include "msprobe/error.h"
#include "msprobe/metrics.h"

namespace msprobe::metrics {
namespace {

static_assert(kSegment % kBlock == 0 && kBlock % kLanes == 0);

constexpr double kZeroShift = 0x1p-52;

// ------------------------------------------------------------------------------------------------------ plan

// As what the elements of both sides are compared.
enum class Common : std::uint8_t { kAsTheyAre, kFloat, kDouble, kComplex };

struct Plan {
  Common common;
  Element element;  // what the kernel gets; of kComplex nothing
  Relative relative;
  ZeroShift shift;
};

bool is_double(DType dtype) { return dtype == DType::kFloat64 || !is_floating(dtype); }

std::optional<Element> element_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return Element::kFloat32;
    case DType::kBFloat16: return Element::kBFloat16;
    case DType::kFloat16: return Element::kFloat16;
    case DType::kFloat64: return Element::kFloat64;
    default: return std::nullopt;
  }
}

Plan plan_of(DType target, DType reference, const Options& options) {
  Plan plan{Common::kAsTheyAre, Element::kFloat64, Relative::kPlain, {kZeroShift, kZeroShift}};
  if ((is_complex(target) || is_complex(reference)) && !options.real_part_only) {
    plan.common = Common::kComplex;
    return plan;
  }
  if (options.float16_arithmetic) {
    if (target == DType::kFloat16) plan.shift.target = 0;
    if (reference == DType::kFloat16) plan.shift.reference = 0;
    if (plan.shift.target == 0 || plan.shift.reference == 0) plan.relative = Relative::kMayBeNaN;
  }
  const std::optional<Element> element = element_of(target);
  if (target == reference && element) {
    plan.element = *element;
    if (plan.relative == Relative::kMayBeNaN) plan.relative = Relative::kInFloat16;
  } else if (is_double(target) || is_double(reference)) {
    plan.common = Common::kDouble;
  } else {
    plan.common = Common::kFloat;
    plan.element = Element::kFloat32;
  }
  return plan;
}

std::size_t element_bytes(const Plan& plan) {
  switch (plan.common) {
    case Common::kComplex: return 2 * sizeof(double);
    case Common::kAsTheyAre:
      return plan.element == Element::kFloat64   ? sizeof(double)
             : plan.element == Element::kFloat32 ? sizeof(float)
                                                 : sizeof(std::uint16_t);
    case Common::kFloat: return sizeof(float);
    case Common::kDouble: break;
  }
  return sizeof(double);
}

// ---------------------------------------------------------------------------------------------------- pieces

// Memory of one thread for one side of a block.
struct CommonScratch {
  alignas(64) std::array<std::byte, kBlock * 16> gathered;
  alignas(64) std::array<std::byte, kBlock * 16> converted;
};

// Some consecutive elements of one side, without gaps.
struct Piece {
  const void* raw;     // in the tensor's dtype
  const void* common;  // as the plan says
};

void to_complex(const void* raw, DType dtype, std::size_t count, double* out) {
  convert_to_double(raw, dtype, count, out);
  if (is_complex(dtype)) return;
  for (std::size_t i = count; i-- > 0;) {
    out[2 * i] = out[i];
    out[2 * i + 1] = 0;
  }
}

// The real parts of complex elements, each of which fills two places while it is converted.
void to_real_parts(const void* raw, DType dtype, std::size_t count, double* out) {
  convert_to_double(raw, dtype, count, out);
  for (std::size_t i = 0; i < count; ++i) out[i] = out[2 * i];
}

const void* convert(const void* raw, DType dtype, const Plan& plan, std::size_t count, std::byte* out) {
  auto* const doubles = reinterpret_cast<double*>(out);
  switch (plan.common) {
    case Common::kAsTheyAre: return raw;
    case Common::kFloat: convert_to_float(raw, dtype, count, reinterpret_cast<float*>(out)); break;
    case Common::kComplex: to_complex(raw, dtype, count, doubles); break;
    case Common::kDouble:
      if (is_complex(dtype)) {
        to_real_parts(raw, dtype, count, doubles);
      } else {
        convert_to_double(raw, dtype, count, doubles);
      }
  }
  return out;
}

Piece piece_of(const Layout& layout, DType dtype, const Plan& plan, std::int64_t first, std::size_t count,
               CommonScratch& scratch) {
  const void* raw = layout.at(first);
  if (!layout.contiguous()) {
    layout.gather(first, count, scratch.gathered.data());
    raw = scratch.gathered.data();
  }
  return {raw, convert(raw, dtype, plan, count, scratch.converted.data())};
}

// ------------------------------------------------------------------------------------------ NaN and Inf

enum class Kind : std::uint8_t { kFinite, kInf, kNaN };

Kind kind_of(double value) {
  return std::isfinite(value) ? Kind::kFinite : std::isnan(value) ? Kind::kNaN : Kind::kInf;
}

Kind kind_of(std::complex<double> value) { return std::max(kind_of(value.real()), kind_of(value.imag())); }

void count_kinds(Kind target, Kind reference, PairMetrics& metrics) {
  metrics.target.nan_count += target == Kind::kNaN;
  metrics.target.inf_count += target == Kind::kInf;
  metrics.reference.nan_count += reference == Kind::kNaN;
  metrics.reference.inf_count += reference == Kind::kInf;
  if (target == Kind::kFinite || reference == Kind::kFinite) {
    metrics.one_sided += target != reference;
  } else {
    ++metrics.both_non_finite;
    metrics.different_kind += target != reference;
  }
}

DType dtype_of(Element element) {
  switch (element) {
    case Element::kFloat32: return DType::kFloat32;
    case Element::kBFloat16: return DType::kBFloat16;
    case Element::kFloat16: return DType::kFloat16;
    case Element::kFloat64: break;
  }
  return DType::kFloat64;
}

void count_kinds(const void* target, const void* reference, Element element, std::size_t count,
                 PairMetrics& metrics) {
  constexpr std::size_t step = 128;
  std::array<double, step> n;
  std::array<double, step> b;
  const DType dtype = dtype_of(element);
  for (std::size_t i = 0; i < count; i += step) {
    const std::size_t some = std::min(step, count - i);
    const std::size_t offset = i * element_size(dtype);
    convert_to_double(static_cast<const std::byte*>(target) + offset, dtype, some, n.data());
    convert_to_double(static_cast<const std::byte*>(reference) + offset, dtype, some, b.data());
    for (std::size_t k = 0; k < some; ++k) count_kinds(kind_of(n[k]), kind_of(b[k]), metrics);
  }
}

// -------------------------------------------------------------------------------------------------- segments

// The lanes added as a balanced tree: always the same order.
double fold(const double (&lanes)[kLanes]) {
  std::array<double, kLanes> sum;
  std::copy(std::begin(lanes), std::end(lanes), sum.begin());
  for (std::size_t width = kLanes / 2; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) sum[i] += sum[i + width];
  }
  return sum[0];
}

// Two tensors, checked and ready.
struct Pair {
  Layout target;
  Layout reference;
  DType target_dtype;
  DType reference_dtype;
  Plan plan;
  bool equal_as_they_are;  // elements are told apart by their own bits

  Pair(const TensorView& l, const TensorView& r, const Options& options)
      : target(l, false),
        reference(r, false),
        target_dtype(l.dtype),
        reference_dtype(r.dtype),
        plan(plan_of(l.dtype, r.dtype, options)),
        equal_as_they_are(l.dtype == r.dtype && !(is_complex(l.dtype) && options.real_part_only)) {}
};

// Takes the metrics of some consecutive pairs. Of positions it knows only the block, by its first pair.
class MetricsSegment {
 public:
  explicit MetricsSegment(const Pair& pair) : pair_(pair) {}

  PairMetrics run(std::int64_t begin, std::int64_t end) {
    metrics_ = {};
    lanes_ = {};
    state_ = {};
    metrics_.count = end - begin;
    for (std::int64_t first = begin; first < end; first += static_cast<std::int64_t>(kBlock)) {
      const auto count = static_cast<std::size_t>(std::min<std::int64_t>(kBlock, end - first));
      const std::int64_t differences = metrics_.equal_bits - (first - begin);
      const double absolute = state_.max_absolute;
      const double relative = state_.max_relative;
      add_block(first, count);
      const std::int64_t at = first - begin;
      if (state_.max_absolute > absolute) metrics_.max_absolute_index = at;
      if (state_.max_relative > relative) metrics_.max_relative_index = at;
      if (differences == 0 && metrics_.equal_bits != at + static_cast<std::int64_t>(count)) {
        metrics_.first_difference = at;
      }
    }
    return finish();
  }

 private:
  void add_block(std::int64_t first, std::size_t count) {
    const Plan& plan = pair_.plan;
    const Piece l = piece_of(pair_.target, pair_.target_dtype, plan, first, count, target_scratch_);
    const Piece r = piece_of(pair_.reference, pair_.reference_dtype, plan, first, count, reference_scratch_);
    const std::int64_t equal =
        pair_.equal_as_they_are ? kernels().count_equal(l.raw, r.raw, count, element_size(pair_.target_dtype))
                                : kernels().count_equal(l.common, r.common, count, element_bytes(plan));
    metrics_.equal_bits += equal;
    if (plan.common == Common::kComplex) {
      add_complex(static_cast<const double*>(l.common), static_cast<const double*>(r.common), count);
      return;
    }
    const std::size_t whole = count / kLanes * kLanes;
    if (whole > 0) add(l.common, r.common, whole, std::cmp_equal(equal, count));
    if (whole < count) {
      const std::size_t bytes = element_bytes(plan);
      add_last(static_cast<const std::byte*>(l.common) + whole * bytes,
               static_cast<const std::byte*>(r.common) + whole * bytes, count - whole);
    }
  }

  // `count`: a multiple of kLanes. `are_equal`: both sides are the same bits.
  void add(const void* target, const void* reference, std::size_t count, bool are_equal) {
    const Plan& plan = pair_.plan;
    const auto e = static_cast<std::size_t>(plan.element);
    if (are_equal && plan.relative == Relative::kPlain &&
        kernels().add_equals[e](target, count, &lanes_, &state_)) {
      return;
    }
    const auto r = static_cast<std::size_t>(plan.relative);
    if (kernels().add_finite[e][r](target, reference, count, plan.shift, &lanes_, &state_)) return;
    kernels().add_any[e][r](target, reference, count, plan.shift, &lanes_, &state_);
    count_kinds(target, reference, plan.element, count, metrics_);
  }

  // Fewer than kLanes pairs. They are filled up with NaN, which the kernel leaves out.
  void add_last(const void* target, const void* reference, std::size_t count) {
    const Plan& plan = pair_.plan;
    const std::size_t bytes = count * element_bytes(plan);
    alignas(64) std::array<std::byte, kLanes * sizeof(double)> n;
    alignas(64) std::array<std::byte, kLanes * sizeof(double)> b;
    n.fill(std::byte{0xFF});  // NaN in every type
    b.fill(std::byte{0xFF});
    std::memcpy(n.data(), target, bytes);
    std::memcpy(b.data(), reference, bytes);
    const auto e = static_cast<std::size_t>(plan.element);
    const auto r = static_cast<std::size_t>(plan.relative);
    const std::int64_t finite = state_.finite_pairs;
    kernels().add_any[e][r](n.data(), b.data(), kLanes, plan.shift, &lanes_, &state_);
    if (state_.finite_pairs - finite < static_cast<std::int64_t>(count)) {
      count_kinds(n.data(), b.data(), plan.element, count, metrics_);
    }
  }

  void add_complex(const double* target, const double* reference, std::size_t count) {
    for (std::size_t i = 0; i < 2 * count; i += 2) {
      add_complex({target[i], target[i + 1]}, {reference[i], reference[i + 1]}, i / 2 % kLanes);
    }
  }

  void add_complex(std::complex<double> n, std::complex<double> b, std::size_t lane) {
    const Kind target = kind_of(n);
    const Kind reference = kind_of(b);
    if (target != Kind::kFinite || reference != Kind::kFinite)
      return count_kinds(target, reference, metrics_);
    ++state_.finite_pairs;
    lanes_.dot[lane] += n.real() * b.real() + n.imag() * b.imag();
    lanes_.target_squares[lane] += std::norm(n);
    lanes_.reference_squares[lane] += std::norm(b);
    lanes_.squared_distance[lane] += std::norm(n - b);
    lanes_.target_sum[lane] += n.real();
    lanes_.reference_sum[lane] += b.real();
    metrics_.target.sum_imag += n.imag();
    metrics_.reference.sum_imag += b.imag();
    state_.max_absolute = std::max(state_.max_absolute, std::abs(n - b));
    if (b == 0.0) {
      n += kZeroShift;
      b += kZeroShift;
    }
    const double relative = std::abs(n - b) / std::abs(b);
    state_.max_relative = std::max(state_.max_relative, relative);
    state_.below_thousandth += relative < 0.001;
    state_.below_five_thousandths += relative < 0.005;
  }

  PairMetrics finish() {
    metrics_.finite_pairs = state_.finite_pairs;
    metrics_.below_thousandth = state_.below_thousandth;
    metrics_.below_five_thousandths = state_.below_five_thousandths;
    metrics_.relative_nan = state_.relative_nan;
    metrics_.dot = fold(lanes_.dot);
    metrics_.squared_distance = fold(lanes_.squared_distance);
    metrics_.target.sum = fold(lanes_.target_sum);
    metrics_.reference.sum = fold(lanes_.reference_sum);
    metrics_.target.squares = fold(lanes_.target_squares);
    metrics_.reference.squares = fold(lanes_.reference_squares);
    metrics_.max_absolute = state_.max_absolute;
    metrics_.max_relative = state_.max_relative;
    if (state_.finite_pairs > 0 && pair_.plan.common != Common::kComplex) {
      set(metrics_.target, state_.target);
      set(metrics_.reference, state_.reference);
    }
    return metrics_;
  }

  static void set(Side& side, const Extremes& extremes) {
    side.min = extremes.min;
    side.max = extremes.max;
  }

  const Pair& pair_;
  PairMetrics metrics_;
  PairLanes lanes_;
  PairState state_;
  // Not initialised: each block writes what it reads.
  CommonScratch target_scratch_;
  CommonScratch reference_scratch_;
};

// ------------------------------------------------------------------------------------------------- the whole

// The first pair of a block, given by its first one, for which `is_in` is true of the metrics of a run of
// pairs that holds it.
template <typename IsIn>
std::int64_t narrow_down(const Pair& pair, std::int64_t block, IsIn is_in) {
  MetricsSegment segment(pair);
  std::int64_t first = block;
  std::int64_t count = std::min<std::int64_t>(kBlock, pair.target.count() - block);
  while (count > 1) {
    const std::int64_t half = count / 2;
    if (is_in(segment.run(first, first + half))) {
      count = half;
    } else {
      first += half;
      count -= half;
    }
  }
  return first;
}

void find_positions(const Pair& pair, PairMetrics& metrics) {
  const auto find = [&](std::optional<std::int64_t>& position, auto is_in) {
    if (position) position = narrow_down(pair, *position, is_in);
  };
  find(metrics.first_difference, [](const PairMetrics& some) { return some.equal_bits < some.count; });
  find(metrics.max_absolute_index,
       [&](const PairMetrics& some) { return some.max_absolute == metrics.max_absolute; });
  find(metrics.max_relative_index,
       [&](const PairMetrics& some) { return some.max_relative == metrics.max_relative; });
}

void append(Side& whole, const Side& part) {
  whole.nan_count += part.nan_count;
  whole.inf_count += part.inf_count;
  whole.sum += part.sum;
  whole.sum_imag += part.sum_imag;
  whole.squares += part.squares;
  if (part.min && (!whole.min || *part.min < *whole.min)) whole.min = part.min;
  if (part.max && (!whole.max || *part.max > *whole.max)) whole.max = part.max;
}

void append_position(std::optional<std::int64_t>& position, std::int64_t before,
                     const std::optional<std::int64_t>& in_part) {
  position = in_part ? std::optional(before + *in_part) : std::nullopt;
}

}  // namespace

void append(PairMetrics& whole, const PairMetrics& part) {
  const FloatEnvironment standard;
  if (part.max_absolute > whole.max_absolute) {
    whole.max_absolute = part.max_absolute;
    append_position(whole.max_absolute_index, whole.count, part.max_absolute_index);
  }
  if (part.max_relative > whole.max_relative) {
    whole.max_relative = part.max_relative;
    append_position(whole.max_relative_index, whole.count, part.max_relative_index);
  }
  if (!whole.first_difference) append_position(whole.first_difference, whole.count, part.first_difference);
  whole.count += part.count;
  whole.finite_pairs += part.finite_pairs;
  whole.both_non_finite += part.both_non_finite;
  whole.different_kind += part.different_kind;
  whole.one_sided += part.one_sided;
  whole.equal_bits += part.equal_bits;
  whole.below_thousandth += part.below_thousandth;
  whole.below_five_thousandths += part.below_five_thousandths;
  whole.relative_nan += part.relative_nan;
  append(whole.target, part.target);
  append(whole.reference, part.reference);
  whole.dot += part.dot;
  whole.squared_distance += part.squared_distance;
}

PairMetrics compare(const TensorView& target, const TensorView& reference, const Options& options,
                    ThreadPool* pool) {
  const FloatEnvironment standard;
  if (!std::equal(target.shape.begin(), target.shape.end(), reference.shape.begin(), reference.shape.end())) {
    throw InvalidArgument("compare: both tensors must have the same shape, found " +
                          shape_text(target.shape) + " and " + shape_text(reference.shape));
  }
  const Pair pair(target, reference, options);
  const std::int64_t count = pair.target.count();
  const auto run = [&](std::int64_t segment) {
    const FloatEnvironment standard;
    const std::int64_t begin = segment * kSegment;
    return MetricsSegment(pair).run(begin, std::min(begin + kSegment, count));
  };
  const std::int64_t segments = (count + kSegment - 1) / kSegment;
  PairMetrics whole;
  if (pool != nullptr && pool->size() > 1 && segments > 1) {
    std::vector<PairMetrics> parts(static_cast<std::size_t>(segments));
    pool->parallel_for(parts.size(), [&](std::size_t s) { parts[s] = run(static_cast<std::int64_t>(s)); });
    for (const PairMetrics& part : parts) append(whole, part);
  } else {
    for (std::int64_t s = 0; s < segments; ++s) append(whole, run(s));
  }
  if (!options.positions) {
    whole.first_difference = whole.max_absolute_index = whole.max_relative_index = std::nullopt;
    return whole;
  }
  find_positions(pair, whole);
  return whole;
}

}  // namespace msprobe::metrics

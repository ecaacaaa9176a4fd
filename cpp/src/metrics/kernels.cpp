// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// Highway compiles this file once per instruction set. See docs/adr/0004.

#include "metrics/kernels.h"

#include "base/kernel_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "metrics/kernels.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>

#include <utility>

#include "base/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace msprobe::metrics::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using msprobe::HWY_NAMESPACE::promote_f16;

// Vectors that together hold kLanes elements.
using Floats = hn::CappedTag<float, kLanes>;
using Doubles = hn::CappedTag<double, kLanes>;
using FloatsOfDoubles = hn::Rebind<float, Doubles>;
constexpr std::size_t kDoubleWidth = hn::MaxLanes(Doubles());
constexpr std::size_t kDoubleVectors = kLanes / kDoubleWidth;

// ------------------------------------------------------------------------------------------ loading elements

// Each gives vectors of D, in which relative errors are computed and extremes kept.
struct Float32 {
  using T = float;
  using D = Floats;
  static HWY_INLINE hn::Vec<D> load(const T* data) { return hn::LoadU(D(), data); }
};

struct Float64 {
  using T = double;
  using D = Doubles;
  static HWY_INLINE hn::Vec<D> load(const T* data) { return hn::LoadU(D(), data); }
};

struct BFloat16 {
  using T = std::uint16_t;
  using D = Floats;
  static HWY_INLINE hn::Vec<D> load(const T* data) {
    const hn::RebindToUnsigned<D> du;
    const hn::Rebind<std::uint16_t, D> d16;
    return hn::BitCast(D(), hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, data))));
  }
};

struct Float16 {
  using T = std::uint16_t;
  using D = Floats;
  static HWY_INLINE hn::Vec<D> load(const T* data) {
    return promote_f16(D(), hn::LoadU(hn::Rebind<std::uint16_t, D>(), data));
  }
};

// The double vectors that a vector of D's elements becomes.
template <typename D>
constexpr std::size_t kParts = hn::MaxLanes(D()) / kDoubleWidth;

template <std::size_t part>
HWY_INLINE hn::Vec<Doubles> widen(Doubles, hn::Vec<Doubles> x) {
  return x;
}

template <std::size_t part>
HWY_INLINE hn::Vec<Doubles> widen(Floats, hn::Vec<Floats> x) {
#if HWY_TARGET == HWY_SCALAR
  return hn::PromoteTo(Doubles(), x);
#else
  const FloatsOfDoubles dh;
  return hn::PromoteTo(Doubles(), part == 0 ? hn::LowerHalf(dh, x) : hn::UpperHalf(dh, x));
#endif
}

#undef MSPROBE_METRICS_AVX512
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
#define MSPROBE_METRICS_AVX512 1
#else
#define MSPROBE_METRICS_AVX512 0
#endif

// The larger magnitude of x and y; x is not negative.
HWY_INLINE hn::Vec<Doubles> larger_magnitude(hn::Vec<Doubles> x, hn::Vec<Doubles> y) {
#if MSPROBE_METRICS_AVX512  // one instruction
  return hn::Vec<Doubles>{_mm512_range_pd(x.raw, y.raw, 0x0B)};
#else
  return hn::Max(x, hn::Abs(y));
#endif
}

// ------------------------------------------------------------------------------------------- relative errors

HWY_INLINE void add_where(hn::Mask<Floats> mask, hn::Vec<Floats> shift, hn::Vec<Floats>* x) {
#if MSPROBE_METRICS_AVX512  // one instruction, which compilers do not find by themselves
  x->raw = _mm512_mask_add_ps(x->raw, mask.raw, x->raw, shift.raw);
#else
  *x = hn::Add(*x, hn::IfThenElseZero(mask, shift));
#endif
}

HWY_INLINE void add_where(hn::Mask<Doubles> mask, hn::Vec<Doubles> shift, hn::Vec<Doubles>* x) {
#if MSPROBE_METRICS_AVX512
  x->raw = _mm512_mask_add_pd(x->raw, mask.raw, x->raw, shift.raw);
#else
  *x = hn::Add(*x, hn::IfThenElseZero(mask, shift));
#endif
}

// Rounds to the nearest float16, ties to even; beyond its range Inf; NaN stays NaN.
HWY_INLINE hn::Vec<Floats> round_to_half(hn::Vec<Floats> x) {
  const Floats df;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2  // has instructions for it
  return hn::PromoteTo(df, hn::DemoteTo(hn::Rebind<hwy::float16_t, Floats>(), x));
#else
  const hn::RebindToUnsigned<Floats> du;
  const auto bits = hn::BitCast(du, x);
  const auto sign = hn::And(bits, hn::Set(du, 0x80000000U));
  const auto magnitude = hn::Xor(bits, sign);
  // 13 bits less of mantissa; a carry into the exponent is right.
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1));
  const auto normal =
      hn::And(hn::Add(hn::Add(magnitude, hn::Set(du, 0x0FFF)), odd), hn::Set(du, 0xFFFFE000U));
  // Below 2^-14 the steps are 2^-24, those of a float at 0.5.
  const auto half = hn::Set(df, 0.5F);
  const auto tiny = hn::Sub(hn::Add(hn::BitCast(df, magnitude), half), half);
  auto value = hn::BitCast(df, normal);
  value = hn::IfThenElse(hn::Ge(value, hn::Set(df, 65536.0F)), hn::Inf(df), value);
  value = hn::IfThenElse(hn::Lt(hn::BitCast(df, magnitude), hn::Set(df, 0x1p-14F)), tiny, value);
  value = hn::IfThenElse(hn::Eq(x, x), value, x);
  return hn::Or(value, hn::BitCast(df, sign));
#endif
}

template <Relative relative, typename D>
HWY_INLINE hn::Vec<D> relative_error(D d, hn::Vec<D> n, hn::Vec<D> b, hn::Vec<D> left_shift,
                                     hn::Vec<D> right_shift) {
  const auto zero = hn::Eq(b, hn::Zero(d));
  if constexpr (relative == Relative::kInFloat16) {  // the shifts are zero in float16
    return hn::Abs(round_to_half(hn::Div(round_to_half(hn::Sub(n, b)), b)));
  }
  add_where(zero, left_shift, &n);
  b = hn::IfThenElse(zero, right_shift, b);
  return hn::Abs(hn::Div(hn::Sub(n, b), b));
}

constexpr double kThousandth = 0.001;
constexpr double kFiveThousandths = 0.005;

// A threshold in the type of the relative errors.
template <Relative relative, typename T>
constexpr T threshold(double value) {
  if constexpr (relative == Relative::kInFloat16) {
    return value == kThousandth ? 0x1.064p-10F : 0x1.47cp-8F;  // the nearest of float16
  } else {
    return static_cast<T>(value);
  }
}

// -------------------------------------------------------------------------------------------------- one
// block

template <typename D>
HWY_INLINE hn::TFromD<D> largest(D d, hn::Vec<D> x) {
  return hn::GetLane(hn::MaxOfLanes(d, x));
}

// The sums of a block.
struct Sums {
  hn::Vec<Doubles> dot[kDoubleVectors];
  hn::Vec<Doubles> squared_distance[kDoubleVectors];
  hn::Vec<Doubles> left_sum[kDoubleVectors];
  hn::Vec<Doubles> right_sum[kDoubleVectors];
  hn::Vec<Doubles> left_squares[kDoubleVectors];
  hn::Vec<Doubles> right_squares[kDoubleVectors];
  hn::Vec<Doubles> max_absolute[kDoubleVectors];

  HWY_INLINE Sums() {
    for (std::size_t v = 0; v < kDoubleVectors; ++v) {
      dot[v] = squared_distance[v] = left_sum[v] = right_sum[v] = hn::Zero(Doubles());
      left_squares[v] = right_squares[v] = max_absolute[v] = hn::Zero(Doubles());
    }
  }

  HWY_INLINE void add(std::size_t v, hn::Vec<Doubles> n, hn::Vec<Doubles> b) {
    dot[v] = hn::MulAdd(n, b, dot[v]);
    left_squares[v] = hn::MulAdd(n, n, left_squares[v]);
    right_squares[v] = hn::MulAdd(b, b, right_squares[v]);
    left_sum[v] = hn::Add(left_sum[v], n);
    right_sum[v] = hn::Add(right_sum[v], b);
    const auto difference = hn::Sub(n, b);
    squared_distance[v] = hn::MulAdd(difference, difference, squared_distance[v]);
    max_absolute[v] = larger_magnitude(max_absolute[v], difference);
  }

  // NaN and Inf come out of their squares as what they are.
  HWY_INLINE bool finite() const {
    const Doubles dd;
    auto all = hn::Zero(dd);
    for (std::size_t v = 0; v < kDoubleVectors; ++v) {
      all = hn::Add(all, hn::Add(left_squares[v], right_squares[v]));
    }
    return hn::AllTrue(dd, hn::Lt(all, hn::Inf(dd)));
  }

  HWY_INLINE void flush_to(PairLanes* lanes, PairState* state) const {
    const Doubles dd;
    const auto flush = [dd](const hn::Vec<Doubles>* sums, double* out) {
      for (std::size_t v = 0; v < kDoubleVectors; ++v) {
        double* const lane = out + v * kDoubleWidth;
        hn::StoreU(hn::Add(hn::LoadU(dd, lane), sums[v]), dd, lane);
      }
    };
    flush(dot, lanes->dot);
    flush(squared_distance, lanes->squared_distance);
    flush(left_sum, lanes->left_sum);
    flush(right_sum, lanes->right_sum);
    flush(left_squares, lanes->left_squares);
    flush(right_squares, lanes->right_squares);
    auto most = max_absolute[0];
    for (std::size_t v = 1; v < kDoubleVectors; ++v) most = hn::Max(most, max_absolute[v]);
    const double found = largest(dd, most);
    if (found > state->max_absolute) state->max_absolute = found;
  }
};

// What is taken of the elements in their own type.
template <typename D>
struct Own {
  static constexpr std::size_t kVectors = kLanes / hn::MaxLanes(D());
  hn::Vec<D> left_min[kVectors];
  hn::Vec<D> left_max[kVectors];
  hn::Vec<D> right_min[kVectors];
  hn::Vec<D> right_max[kVectors];
  hn::Vec<D> max_relative[kVectors];
  std::size_t thousandth = 0;
  std::size_t five_thousandths = 0;
  std::size_t nan = 0;
  std::size_t valid = 0;

  HWY_INLINE Own() {
    const D d;
    for (std::size_t v = 0; v < kVectors; ++v) {
      left_min[v] = right_min[v] = hn::Inf(d);
      left_max[v] = right_max[v] = hn::Neg(hn::Inf(d));
      max_relative[v] = hn::Zero(d);
    }
  }

  HWY_INLINE void flush_to(PairState* state) {
    const D d;
    for (std::size_t v = 1; v < kVectors; ++v) {
      left_min[0] = hn::Min(left_min[0], left_min[v]);
      left_max[0] = hn::Max(left_max[0], left_max[v]);
      right_min[0] = hn::Min(right_min[0], right_min[v]);
      right_max[0] = hn::Max(right_max[0], right_max[v]);
      max_relative[0] = hn::Max(max_relative[0], max_relative[v]);
    }
    const auto lower = [d](double& least, hn::Vec<D> x) {
      const double found = static_cast<double>(hn::GetLane(hn::MinOfLanes(d, x)));
      if (found < least) least = found;
    };
    const auto raise = [d](double& most, hn::Vec<D> x) {
      const double found = static_cast<double>(largest(d, x));
      if (found > most) most = found;
    };
    lower(state->left.min, left_min[0]);
    raise(state->left.max, left_max[0]);
    lower(state->right.min, right_min[0]);
    raise(state->right.max, right_max[0]);
    raise(state->max_relative, max_relative[0]);
    state->finite_pairs += static_cast<std::int64_t>(valid);
    state->below_thousandth += static_cast<std::int64_t>(thousandth);
    state->below_five_thousandths += static_cast<std::int64_t>(five_thousandths);
    state->relative_nan += static_cast<std::int64_t>(nan);
  }
};

template <typename Load, Relative relative, bool masked>
struct Block {
  using D = typename Load::D;
  using T = hn::TFromD<D>;
  static constexpr std::size_t kWidth = hn::MaxLanes(D());

  Sums sums;
  Own<D> own;
  hn::Vec<D> left_shift;
  hn::Vec<D> right_shift;

  HWY_INLINE explicit Block(ZeroShift shift)
      : left_shift(hn::Set(D(), static_cast<T>(shift.left))),
        right_shift(hn::Set(D(), static_cast<T>(shift.right))) {}

  template <std::size_t v>
  HWY_INLINE void add(hn::Vec<D> n, hn::Vec<D> b) {
    const D d;
    [[maybe_unused]] hn::Mask<D> valid;
    if constexpr (masked) {
      valid = hn::And(hn::Lt(hn::Abs(n), hn::Inf(d)), hn::Lt(hn::Abs(b), hn::Inf(d)));
      own.left_min[v] = hn::Min(own.left_min[v], hn::IfThenElse(valid, n, hn::Inf(d)));
      own.left_max[v] = hn::Max(own.left_max[v], hn::IfThenElse(valid, n, hn::Neg(hn::Inf(d))));
      own.right_min[v] = hn::Min(own.right_min[v], hn::IfThenElse(valid, b, hn::Inf(d)));
      own.right_max[v] = hn::Max(own.right_max[v], hn::IfThenElse(valid, b, hn::Neg(hn::Inf(d))));
      own.valid += hn::CountTrue(d, valid);
      n = hn::IfThenElseZero(valid, n);
      b = hn::IfThenElseZero(valid, b);
    } else {
      own.left_min[v] = hn::Min(own.left_min[v], n);
      own.left_max[v] = hn::Max(own.left_max[v], n);
      own.right_min[v] = hn::Min(own.right_min[v], b);
      own.right_max[v] = hn::Max(own.right_max[v], b);
    }
    constexpr std::size_t first = v * kParts<D>;
    sums.add(first, widen<0>(d, n), widen<0>(d, b));
    if constexpr (kParts<D> == 2) sums.add(first + 1, widen<1>(d, n), widen<1>(d, b));

    auto error = relative_error<relative>(d, n, b, left_shift, right_shift);
    auto below = hn::Lt(error, hn::Set(d, threshold<relative, T>(kThousandth)));
    auto below_five = hn::Lt(error, hn::Set(d, threshold<relative, T>(kFiveThousandths)));
    if constexpr (masked) {
      below = hn::And(below, valid);
      below_five = hn::And(below_five, valid);
      error = hn::IfThenElseZero(valid, error);
    }
    own.thousandth += hn::CountTrue(d, below);
    own.five_thousandths += hn::CountTrue(d, below_five);
    if constexpr (relative != Relative::kPlain) {
      const auto is_number = hn::Eq(error, error);
      own.nan += hn::CountTrue(d, hn::Not(is_number));
      error = hn::IfThenElseZero(is_number, error);
    }
    own.max_relative[v] = hn::Max(own.max_relative[v], error);
  }

  template <std::size_t... v>
  HWY_INLINE void add_row(const typename Load::T* n, const typename Load::T* b, std::index_sequence<v...>) {
    (add<v>(Load::load(n + v * kWidth), Load::load(b + v * kWidth)), ...);
  }

  HWY_INLINE void add_all(const void* left, const void* right, std::size_t count) {
    const auto* n = static_cast<const typename Load::T*>(left);
    const auto* b = static_cast<const typename Load::T*>(right);
    for (std::size_t i = 0; i < count; i += kLanes) {
      hwy::Prefetch(n + i + kPrefetch);
      hwy::Prefetch(b + i + kPrefetch);
      add_row(n + i, b + i, std::make_index_sequence<Own<D>::kVectors>());
    }
  }

  // Memory is asked for this far ahead: the processor's own prefetcher stops at the end of each page.
  static constexpr std::size_t kPrefetch = 4096 / sizeof(typename Load::T);
};

template <typename Load, Relative relative>
bool add_finite(const void* left, const void* right, std::size_t count, ZeroShift shift, PairLanes* lanes,
                PairState* state) {
  Block<Load, relative, false> block(shift);
  block.add_all(left, right, count);
  if (!block.sums.finite()) return false;
  block.sums.flush_to(lanes, state);
  block.own.valid = count;
  block.own.flush_to(state);
  return true;
}

template <typename Load, Relative relative>
void add_any(const void* left, const void* right, std::size_t count, ZeroShift shift, PairLanes* lanes,
             PairState* state) {
  Block<Load, relative, true> block(shift);
  block.add_all(left, right, count);
  block.sums.flush_to(lanes, state);
  block.own.flush_to(state);
}

// -------------------------------------------------------------------------------------------------- equality

template <typename T>
std::int64_t count_equal_as(const T* left, const T* right, std::size_t count) {
  const hn::CappedTag<T, 64 / sizeof(T)> d;
  constexpr std::size_t width = hn::MaxLanes(d);
  std::size_t equal = 0;
  std::size_t i = 0;
  for (; i + width <= count; i += width) {
    equal += hn::CountTrue(d, hn::Eq(hn::LoadU(d, left + i), hn::LoadU(d, right + i)));
  }
  for (; i < count; ++i) equal += left[i] == right[i];
  return static_cast<std::int64_t>(equal);
}

std::int64_t count_equal_16(const std::uint64_t* left, const std::uint64_t* right, std::size_t count) {
  std::int64_t equal = 0;
  for (std::size_t i = 0; i < 2 * count; i += 2) {
    equal += left[i] == right[i] && left[i + 1] == right[i + 1];
  }
  return equal;
}

template <typename T>
const T* as(const void* data) {
  return static_cast<const T*>(data);
}

std::int64_t count_equal(const void* left, const void* right, std::size_t count, std::size_t item) {
  switch (item) {
    case 1: return count_equal_as(as<std::uint8_t>(left), as<std::uint8_t>(right), count);
    case 2: return count_equal_as(as<std::uint16_t>(left), as<std::uint16_t>(right), count);
    case 4: return count_equal_as(as<std::uint32_t>(left), as<std::uint32_t>(right), count);
    case 8: return count_equal_as(as<std::uint64_t>(left), as<std::uint64_t>(right), count);
    default: return count_equal_16(as<std::uint64_t>(left), as<std::uint64_t>(right), count);
  }
}

template <typename Load, Relative relative>
void put(Kernels& kernels, Element element) {
  const auto e = static_cast<std::size_t>(element);
  const auto r = static_cast<std::size_t>(relative);
  kernels.add_finite[e][r] = add_finite<Load, relative>;
  kernels.add_any[e][r] = add_any<Load, relative>;
}

}  // namespace

void find_kernels_here(Kernels& kernels) {
  kernels.count_equal = count_equal;
  put<Float32, Relative::kPlain>(kernels, Element::kFloat32);
  put<Float32, Relative::kMayBeNaN>(kernels, Element::kFloat32);
  put<BFloat16, Relative::kPlain>(kernels, Element::kBFloat16);
  put<Float16, Relative::kPlain>(kernels, Element::kFloat16);
  put<Float16, Relative::kInFloat16>(kernels, Element::kFloat16);
  put<Float64, Relative::kPlain>(kernels, Element::kFloat64);
  put<Float64, Relative::kMayBeNaN>(kernels, Element::kFloat64);
}

}  // namespace msprobe::metrics::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace msprobe::metrics {

HWY_EXPORT(find_kernels_here);

const Kernels& kernels() {
  static const Kernels chosen = [] {
    use_best_instruction_set();
    Kernels table{};
    HWY_DYNAMIC_DISPATCH(find_kernels_here)(table);
    return table;
  }();
  return chosen;
}

}  // namespace msprobe::metrics
#endif

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

#include "base/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace msprobe::metrics::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using msprobe::HWY_NAMESPACE::BFloat16Elements;
using msprobe::HWY_NAMESPACE::Float16Elements;
using msprobe::HWY_NAMESPACE::SameElements;

// Vectors that together hold kLanes elements.
using Floats = hn::CappedTag<float, kLanes>;
using Doubles = hn::CappedTag<double, kLanes>;
using FloatsOfDoubles = hn::Rebind<float, Doubles>;
constexpr std::size_t kDoubleWidth = hn::MaxLanes(Doubles());

// In vectors of their D relative errors are computed and extremes kept.
using Float32 = SameElements<Floats>;
using Float64 = SameElements<Doubles>;
using BFloat16 = BFloat16Elements<Floats>;
using Float16 = Float16Elements<Floats>;

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
HWY_INLINE hn::Vec<D> relative_error(D d, hn::Vec<D> n, hn::Vec<D> b, hn::Vec<D> target_shift,
                                     hn::Vec<D> reference_shift) {
  const auto zero = hn::Eq(b, hn::Zero(d));
  if constexpr (relative == Relative::kInFloat16) {  // the shifts are zero in float16
    return hn::Abs(round_to_half(hn::Div(round_to_half(hn::Sub(n, b)), b)));
  }
  add_where(zero, target_shift, &n);
  b = hn::IfThenElse(zero, reference_shift, b);
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

// ------------------------------------------------------------------------------------------------ one block

// A row is kLanes pairs, which fill so many vectors of D. They are taken one after the other, each over the
// whole block: what one of them adds up stays in registers.
template <typename D>
constexpr std::size_t kVectors = kLanes / hn::MaxLanes(D());

// Where there are 16 registers, sums and extremes are taken in turns.
constexpr bool kManyRegisters = MSPROBE_METRICS_AVX512 || HWY_ARCH_ARM_A64;

// Adds the sums to those of the lanes from `first` on.
template <std::size_t parts>
HWY_INLINE void flush(const hn::Vec<Doubles> (&sums)[parts], double* first) {
  const Doubles dd;
  for (std::size_t i = 0; i < parts; ++i) {
    double* const lane = first + i * kDoubleWidth;
    hn::StoreU(hn::Add(hn::LoadU(dd, lane), sums[i]), dd, lane);
  }
}

// The sums of one vector.
template <typename D>
struct Sums {
  static constexpr std::size_t kSums = kParts<D>;
  hn::Vec<Doubles> dot[kSums];
  hn::Vec<Doubles> squared_distance[kSums];
  hn::Vec<Doubles> target_sum[kSums];
  hn::Vec<Doubles> reference_sum[kSums];
  hn::Vec<Doubles> target_squares[kSums];
  hn::Vec<Doubles> reference_squares[kSums];
  hn::Vec<Doubles> max_absolute[kSums];

  HWY_INLINE Sums() {
    for (std::size_t i = 0; i < kSums; ++i) {
      dot[i] = squared_distance[i] = target_sum[i] = reference_sum[i] = hn::Zero(Doubles());
      target_squares[i] = reference_squares[i] = max_absolute[i] = hn::Zero(Doubles());
    }
  }

  HWY_INLINE void add(hn::Vec<D> n, hn::Vec<D> b) {
    const D d;
    add(0, widen<0>(d, n), widen<0>(d, b));
    if constexpr (kSums == 2) add(1, widen<1>(d, n), widen<1>(d, b));
  }

  // NaN and Inf come out of their squares as what they are.
  HWY_INLINE bool finite() const {
    const Doubles dd;
    auto all = hn::Zero(dd);
    for (std::size_t i = 0; i < kSums; ++i)
      all = hn::Add(all, hn::Add(target_squares[i], reference_squares[i]));
    return hn::AllTrue(dd, hn::Lt(all, hn::Inf(dd)));
  }

  // `first`: the lane of the vector's first element.
  HWY_INLINE void flush_to(std::size_t first, PairLanes* lanes, PairState* state) const {
    flush(dot, lanes->dot + first);
    flush(squared_distance, lanes->squared_distance + first);
    flush(target_sum, lanes->target_sum + first);
    flush(reference_sum, lanes->reference_sum + first);
    flush(target_squares, lanes->target_squares + first);
    flush(reference_squares, lanes->reference_squares + first);
    for (const auto& most : max_absolute) {
      const double found = hn::GetLane(hn::MaxOfLanes(Doubles(), most));
      if (found > state->max_absolute) state->max_absolute = found;
    }
  }

 private:
  HWY_INLINE void add(std::size_t i, hn::Vec<Doubles> n, hn::Vec<Doubles> b) {
    dot[i] = hn::MulAdd(n, b, dot[i]);
    target_squares[i] = hn::MulAdd(n, n, target_squares[i]);
    reference_squares[i] = hn::MulAdd(b, b, reference_squares[i]);
    target_sum[i] = hn::Add(target_sum[i], n);
    reference_sum[i] = hn::Add(reference_sum[i], b);
    const auto difference = hn::Sub(n, b);
    squared_distance[i] = hn::MulAdd(difference, difference, squared_distance[i]);
    max_absolute[i] = larger_magnitude(max_absolute[i], difference);
  }
};

// The least and the largest elements of one side, in one vector.
template <typename D>
struct Range {
  hn::Vec<D> min = hn::Inf(D());
  hn::Vec<D> max = hn::Neg(hn::Inf(D()));

  HWY_INLINE Range() {}  // NOLINT(modernize-use-equals-default): a defaulted one is not compiled for the set

  HWY_INLINE void add(hn::Vec<D> x) {
    min = hn::Min(min, x);
    max = hn::Max(max, x);
  }

  HWY_INLINE void add_valid(hn::Mask<D> valid, hn::Vec<D> x) {
    min = hn::Min(min, hn::IfThenElse(valid, x, hn::Inf(D())));
    max = hn::Max(max, hn::IfThenElse(valid, x, hn::Neg(hn::Inf(D()))));
  }

  HWY_INLINE void flush_to(Extremes* extremes) const {
    const D d;
    const auto least = static_cast<double>(hn::GetLane(hn::MinOfLanes(d, min)));
    const auto most = static_cast<double>(hn::GetLane(hn::MaxOfLanes(d, max)));
    if (least < extremes->min) extremes->min = least;
    if (most > extremes->max) extremes->max = most;
  }
};

// What is taken of the elements of one vector in their own type. Each lane counts for itself.
template <typename D>
struct Own {
  using Bits = hn::RebindToUnsigned<D>;
  Range<D> target;
  Range<D> reference;
  hn::Vec<D> max_relative = hn::Zero(D());
  hn::Vec<Bits> valid = hn::Zero(Bits());
  hn::Vec<Bits> thousandth = hn::Zero(Bits());
  hn::Vec<Bits> five_thousandths = hn::Zero(Bits());
  hn::Vec<Bits> nan = hn::Zero(Bits());

  HWY_INLINE Own() {}  // NOLINT(modernize-use-equals-default): see Range

  static HWY_INLINE void count(hn::Mask<D> mask, hn::Vec<Bits>* counter) {
    *counter = hn::Sub(*counter, hn::BitCast(Bits(), hn::VecFromMask(D(), mask)));
  }

  HWY_INLINE void flush_to(PairState* state) const {
    target.flush_to(&state->target);
    reference.flush_to(&state->reference);
    const auto found = static_cast<double>(hn::GetLane(hn::MaxOfLanes(D(), max_relative)));
    if (found > state->max_relative) state->max_relative = found;
    state->finite_pairs += total(valid);
    state->below_thousandth += total(thousandth);
    state->below_five_thousandths += total(five_thousandths);
    state->relative_nan += total(nan);
  }

 private:
  static HWY_INLINE std::int64_t total(hn::Vec<Bits> counter) {
    return static_cast<std::int64_t>(hn::GetLane(hn::SumOfLanes(Bits(), counter)));
  }
};

template <typename Load, Relative relative, bool masked>
class Block {
 public:
  using D = typename Load::D;

  HWY_INLINE Block(const void* target, const void* reference, std::size_t count, ZeroShift shift)
      : target_(static_cast<const T*>(target)),
        reference_(static_cast<const T*>(reference)),
        count_(count),
        target_shift_(hn::Set(D(), static_cast<hn::TFromD<D>>(shift.target))),
        reference_shift_(hn::Set(D(), static_cast<hn::TFromD<D>>(shift.reference))) {}

  HWY_INLINE void add_all() {
    for (std::size_t v = 0; v < kVectors<D>; ++v) {
      Sums<D> sums;
      Own<D> own;
      if constexpr (kManyRegisters) {
        add_rows(v, [&](hn::Vec<D> n, hn::Vec<D> b) HWY_ATTR {
          add_sums(n, b, &sums);
          add_own(n, b, &own);
        });
      } else {
        add_rows(v, [&](hn::Vec<D> n, hn::Vec<D> b) HWY_ATTR { add_sums(n, b, &sums); });
        add_rows(v, [&](hn::Vec<D> n, hn::Vec<D> b) HWY_ATTR { add_own(n, b, &own); });
      }
      sums_[v] = sums;
      own_[v] = own;
    }
  }

  HWY_INLINE bool finite() const {
    for (const Sums<D>& sums : sums_) {
      if (!sums.finite()) return false;
    }
    return true;
  }

  HWY_INLINE void flush_to(PairLanes* lanes, PairState* state) const {
    for (std::size_t v = 0; v < kVectors<D>; ++v) {
      sums_[v].flush_to(v * hn::MaxLanes(D()), lanes, state);
      own_[v].flush_to(state);
    }
    if constexpr (!masked) state->finite_pairs += static_cast<std::int64_t>(count_);
  }

 private:
  using T = typename Load::T;

  template <typename Add>
  HWY_INLINE void add_rows(std::size_t v, Add add) const {
    const T* const n = target_ + v * hn::MaxLanes(D());
    const T* const b = reference_ + v * hn::MaxLanes(D());
    for (std::size_t i = 0; i < count_; i += kLanes) add(Load::load(n + i), Load::load(b + i));
  }

  static HWY_INLINE hn::Mask<D> valid(hn::Vec<D> n, hn::Vec<D> b) {
    const D d;
    return hn::And(hn::Lt(hn::Abs(n), hn::Inf(d)), hn::Lt(hn::Abs(b), hn::Inf(d)));
  }

  HWY_INLINE void add_sums(hn::Vec<D> n, hn::Vec<D> b, Sums<D>* sums) const {
    if constexpr (masked) {
      const auto both = valid(n, b);
      n = hn::IfThenElseZero(both, n);
      b = hn::IfThenElseZero(both, b);
    }
    sums->add(n, b);
  }

  HWY_INLINE void add_own(hn::Vec<D> n, hn::Vec<D> b, Own<D>* own) const {
    const D d;
    [[maybe_unused]] hn::Mask<D> both;
    if constexpr (masked) {
      both = valid(n, b);
      own->target.add_valid(both, n);
      own->reference.add_valid(both, b);
      Own<D>::count(both, &own->valid);
      n = hn::IfThenElseZero(both, n);
      b = hn::IfThenElseZero(both, b);
    } else {
      own->target.add(n);
      own->reference.add(b);
    }
    using F = hn::TFromD<D>;
    auto error = relative_error<relative>(d, n, b, target_shift_, reference_shift_);
    auto below = hn::Lt(error, hn::Set(d, threshold<relative, F>(kThousandth)));
    auto below_five = hn::Lt(error, hn::Set(d, threshold<relative, F>(kFiveThousandths)));
    if constexpr (masked) {
      below = hn::And(below, both);
      below_five = hn::And(below_five, both);
      error = hn::IfThenElseZero(both, error);
    }
    Own<D>::count(below, &own->thousandth);
    Own<D>::count(below_five, &own->five_thousandths);
    if constexpr (relative != Relative::kPlain) {
      const auto is_number = hn::Eq(error, error);
      Own<D>::count(hn::Not(is_number), &own->nan);
      error = hn::IfThenElseZero(is_number, error);
    }
    own->max_relative = hn::Max(own->max_relative, error);
  }

  const T* target_;
  const T* reference_;
  std::size_t count_;
  hn::Vec<D> target_shift_;
  hn::Vec<D> reference_shift_;
  Sums<D> sums_[kVectors<D>];
  Own<D> own_[kVectors<D>];
};

template <typename Load, Relative relative>
bool add_finite(const void* target, const void* reference, std::size_t count, ZeroShift shift,
                PairLanes* lanes, PairState* state) {
  Block<Load, relative, false> block(target, reference, count, shift);
  block.add_all();
  if (!block.finite()) return false;
  block.flush_to(lanes, state);
  return true;
}

template <typename Load, Relative relative>
void add_any(const void* target, const void* reference, std::size_t count, ZeroShift shift, PairLanes* lanes,
             PairState* state) {
  Block<Load, relative, true> block(target, reference, count, shift);
  block.add_all();
  block.flush_to(lanes, state);
}

// ----------------------------------------------------------------------------------------- a block of equals

// What one vector adds up of either side.
template <typename D>
struct OneSide {
  hn::Vec<Doubles> sum[kParts<D>];
  hn::Vec<Doubles> squares[kParts<D>];
  Range<D> range;

  HWY_INLINE OneSide() {
    for (std::size_t i = 0; i < kParts<D>; ++i) sum[i] = squares[i] = hn::Zero(Doubles());
  }

  HWY_INLINE void add(hn::Vec<D> x) {
    range.add(x);
    add(0, widen<0>(D(), x));
    if constexpr (kParts<D> == 2) add(1, widen<1>(D(), x));
  }

  HWY_INLINE bool finite() const {
    const Doubles dd;
    auto all = hn::Zero(dd);
    for (const auto& some : squares) all = hn::Add(all, some);
    return hn::AllTrue(dd, hn::Lt(all, hn::Inf(dd)));
  }

  HWY_INLINE void flush_to(std::size_t first, PairLanes* lanes, PairState* state) const {
    flush(sum, lanes->target_sum + first);
    flush(sum, lanes->reference_sum + first);
    flush(squares, lanes->dot + first);
    flush(squares, lanes->target_squares + first);
    flush(squares, lanes->reference_squares + first);
    range.flush_to(&state->target);
    range.flush_to(&state->reference);
  }

 private:
  HWY_INLINE void add(std::size_t i, hn::Vec<Doubles> x) {
    sum[i] = hn::Add(sum[i], x);
    squares[i] = hn::MulAdd(x, x, squares[i]);
  }
};

template <typename Load>
bool add_equals(const void* data, std::size_t count, PairLanes* lanes, PairState* state) {
  using D = typename Load::D;
  OneSide<D> sides[kVectors<D>];
  const auto* const x = static_cast<const typename Load::T*>(data);
  for (std::size_t i = 0; i < count; i += kLanes) {
    for (std::size_t v = 0; v < kVectors<D>; ++v) sides[v].add(Load::load(x + i + v * hn::MaxLanes(D())));
  }
  for (const OneSide<D>& side : sides) {
    if (!side.finite()) return false;
  }
  for (std::size_t v = 0; v < kVectors<D>; ++v) sides[v].flush_to(v * hn::MaxLanes(D()), lanes, state);
  state->finite_pairs += static_cast<std::int64_t>(count);
  state->below_thousandth += static_cast<std::int64_t>(count);
  state->below_five_thousandths += static_cast<std::int64_t>(count);
  return true;
}

// -------------------------------------------------------------------------------------------------- equality

// Comes first, so it asks for the memory of the next blocks: the processor's own prefetcher stops at the end
// of each page.
template <typename T>
std::int64_t count_equal_as(const T* target, const T* reference, std::size_t count) {
  const hn::CappedTag<T, 64 / sizeof(T)> d;
  constexpr std::size_t width = hn::MaxLanes(d);
  constexpr std::size_t ahead = 4096 / sizeof(T);
  std::size_t equal = 0;
  std::size_t i = 0;
  for (; i + width <= count; i += width) {
    hwy::Prefetch(target + i + ahead);
    hwy::Prefetch(reference + i + ahead);
    equal += hn::CountTrue(d, hn::Eq(hn::LoadU(d, target + i), hn::LoadU(d, reference + i)));
  }
  for (; i < count; ++i) equal += target[i] == reference[i];
  return static_cast<std::int64_t>(equal);
}

std::int64_t count_equal_16(const std::uint64_t* target, const std::uint64_t* reference, std::size_t count) {
  std::int64_t equal = 0;
  for (std::size_t i = 0; i < 2 * count; i += 2) {
    equal += target[i] == reference[i] && target[i + 1] == reference[i + 1];
  }
  return equal;
}

template <typename T>
const T* as(const void* data) {
  return static_cast<const T*>(data);
}

std::int64_t count_equal(const void* target, const void* reference, std::size_t count, std::size_t item) {
  switch (item) {
    case 1: return count_equal_as(as<std::uint8_t>(target), as<std::uint8_t>(reference), count);
    case 2: return count_equal_as(as<std::uint16_t>(target), as<std::uint16_t>(reference), count);
    case 4: return count_equal_as(as<std::uint32_t>(target), as<std::uint32_t>(reference), count);
    case 8: return count_equal_as(as<std::uint64_t>(target), as<std::uint64_t>(reference), count);
    default: return count_equal_16(as<std::uint64_t>(target), as<std::uint64_t>(reference), count);
  }
}

template <typename Load>
void put_equals(Kernels& kernels, Element element) {
  kernels.add_equals[static_cast<std::size_t>(element)] = add_equals<Load>;
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
  put_equals<Float32>(kernels, Element::kFloat32);
  put_equals<BFloat16>(kernels, Element::kBFloat16);
  put_equals<Float16>(kernels, Element::kFloat16);
  put_equals<Float64>(kernels, Element::kFloat64);
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

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// Highway compiles this file once per instruction set. See docs/adr/0004.

#include "checkpoint/difference_kernels.h"

#include "base/kernel_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "checkpoint/difference_kernels.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>

#include <cstring>
#include <limits>

#include "base/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace msprobe::checkpoint::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using msprobe::HWY_NAMESPACE::Float16Elements;
using msprobe::HWY_NAMESPACE::SameElements;

// A row is kLanes pairs: two groups of kGroup, each in kVectors vectors.
constexpr std::size_t kGroup = kLanes / 2;
using Floats = hn::CappedTag<float, kGroup>;
using Doubles = hn::CappedTag<double, kGroup>;
using FloatsOfDoubles = hn::Rebind<float, Doubles>;
using Vector = hn::Vec<Floats>;
constexpr std::size_t kWidth = hn::MaxLanes(Floats());
constexpr std::size_t kVectors = kGroup / kWidth;
constexpr std::size_t kDoubleWidth = hn::MaxLanes(Doubles());
constexpr std::size_t kDoubleVectors = kGroup / kDoubleWidth;
constexpr std::size_t kDoublesPerVector = kDoubleVectors / kVectors;

// Pairs whose sums are kept in float before they go to double: each lane adds up so few that what it rounds
// off is lost among the lanes.
constexpr std::size_t kRun = 256;
static_assert(kBlock % kRun == 0 && kRun % kLanes == 0);

HWY_INLINE std::size_t end_of_run(std::size_t begin, std::size_t count) {
  return begin + kRun < count ? begin + kRun : count;
}

// Sums of squares from here on have lost nothing to the smallest number of float, whatever their terms.
constexpr double kLeastSquares = 0x1p-100;

// ------------------------------------------------------------------------------------------ loading elements

// load<group>(row, v): vector `v` of a group of a row.

template <typename Elements>
struct InOrder {
  using T = typename Elements::T;
  template <std::size_t group>
  static HWY_INLINE Vector load(const T* row, std::size_t v) {
    return Elements::load(row + group * kGroup + v * kWidth);
  }
};
using Float32 = InOrder<SameElements<Floats>>;
using Float16 = InOrder<Float16Elements<Floats>>;

// The even elements are the first group, the odd ones the second: one instruction for each.
struct BFloat16 {
  using T = std::uint16_t;
  template <std::size_t group>
  static HWY_INLINE Vector load(const T* row, std::size_t v) {
    const hn::RebindToUnsigned<Floats> du;
    const auto words = load_words(row + 2 * v * kWidth);
    if constexpr (group == 0) return hn::BitCast(Floats(), hn::ShiftLeft<16>(words));
    return hn::BitCast(Floats(), hn::And(words, hn::Set(du, 0xFFFF0000U)));
  }

 private:
  static HWY_INLINE hn::Vec<hn::RebindToUnsigned<Floats>> load_words(const T* data) {
    const hn::RebindToUnsigned<Floats> du;
#if HWY_TARGET == HWY_SCALAR  // has no vectors of two
    return hn::Set(du, data[0] | static_cast<std::uint32_t>(data[1]) << 16);
#else
    return hn::BitCast(du, hn::LoadU(hn::Repartition<std::uint16_t, Floats>(), data));
#endif
  }
};

// --------------------------------------------------------------------------------------------------- one run

// What one vector of a group adds up. So few that all of them stay in registers, also where there are 16.
struct Lanes {
  Vector dot = hn::Zero(Floats());
  Vector squared_distance = hn::Zero(Floats());
  Vector reference_sum = hn::Zero(Floats());
  Vector target_sum = hn::Zero(Floats());
  Vector reference_squares = hn::Zero(Floats());
  Vector target_squares = hn::Zero(Floats());

  HWY_INLINE Lanes() {}  // NOLINT(modernize-use-equals-default): a defaulted one is not compiled for the set

  // Gives the absolute difference.
  HWY_INLINE Vector add(Vector n, Vector b) {
    dot = hn::MulAdd(n, b, dot);
    reference_squares = hn::MulAdd(n, n, reference_squares);
    target_squares = hn::MulAdd(b, b, target_squares);
    reference_sum = hn::Add(reference_sum, n);
    target_sum = hn::Add(target_sum, b);
    const Vector difference = hn::Sub(n, b);
    squared_distance = hn::MulAdd(difference, difference, squared_distance);
    return hn::Abs(difference);
  }
};

// A sum of a block, by lanes of a group.
struct Sum {
  hn::Vec<Doubles> lanes[kDoubleVectors];

  HWY_INLINE Sum() {}  // NOLINT: see Lanes; begin() sets what is added to

  // Before add() of the same vector.
  HWY_INLINE void begin(std::size_t v) {
    for (std::size_t i = 0; i < kDoublesPerVector; ++i) {
      lanes[v * kDoublesPerVector + i] = hn::Zero(Doubles());
    }
  }

  // Vector `v` of both groups.
  HWY_INLINE void add(std::size_t v, Vector first, Vector second) {
    const Doubles dd;
    const Vector both = hn::Add(first, second);
#if HWY_TARGET == HWY_SCALAR
    lanes[v] = hn::Add(lanes[v], hn::PromoteTo(dd, both));
#else
    const FloatsOfDoubles dh;
    lanes[2 * v] = hn::Add(lanes[2 * v], hn::PromoteTo(dd, hn::LowerHalf(dh, both)));
    lanes[2 * v + 1] = hn::Add(lanes[2 * v + 1], hn::PromoteTo(dd, hn::UpperHalf(dh, both)));
#endif
  }

  // A balanced tree: always the same order.
  HWY_INLINE double total() {
    for (std::size_t width = kDoubleVectors / 2; width > 0; width /= 2) {
      for (std::size_t v = 0; v < width; ++v) lanes[v] = hn::Add(lanes[v], lanes[v + width]);
    }
    alignas(64) double rest[kDoubleWidth];
    hn::Store(lanes[0], Doubles(), rest);
    for (std::size_t width = kDoubleWidth / 2; width > 0; width /= 2) {
      for (std::size_t i = 0; i < width; ++i) rest[i] += rest[i + width];
    }
    return rest[0];
  }
};

struct Sums {
  // An implicit one, or one that is defaulted, is not compiled for the instruction set.
  HWY_INLINE Sums() {}  // NOLINT(modernize-use-equals-default)

  Sum dot;
  Sum squared_distance;
  Sum reference_sum;
  Sum target_sum;
  Sum reference_squares;
  Sum target_squares;

  HWY_INLINE void begin(std::size_t v) {
    dot.begin(v);
    squared_distance.begin(v);
    reference_sum.begin(v);
    target_sum.begin(v);
    reference_squares.begin(v);
    target_squares.begin(v);
  }

  HWY_INLINE void add(std::size_t v, const Lanes& first, const Lanes& second) {
    dot.add(v, first.dot, second.dot);
    squared_distance.add(v, first.squared_distance, second.squared_distance);
    reference_sum.add(v, first.reference_sum, second.reference_sum);
    target_sum.add(v, first.target_sum, second.target_sum);
    reference_squares.add(v, first.reference_squares, second.reference_squares);
    target_squares.add(v, first.target_squares, second.target_squares);
  }
};

// Whether float did for these squares; it did not for NaN.
HWY_INLINE bool fit(double squares) {
  return squares >= kLeastSquares && squares < std::numeric_limits<double>::infinity();
}

HWY_INLINE float largest(Vector values) { return hn::GetLane(hn::MaxOfLanes(Floats(), values)); }

// ------------------------------------------------------------------------------------------------- one block

// Memory is asked for this far ahead: the processor's own prefetcher stops at the end of each page.
constexpr std::size_t kPrefetchBytes = 4096;

template <typename T>
HWY_INLINE void prefetch_row(const T* row) {
  constexpr std::size_t line = 64 / sizeof(T);
  constexpr std::size_t ahead = kPrefetchBytes / sizeof(T);
  for (std::size_t i = 0; i < kLanes; i += line) hwy::Prefetch(row + ahead + i);
}

// At most kBlock elements; each lane counts for itself.
template <typename T>
HWY_INLINE std::size_t count_equal(const T* reference, const T* target, std::size_t count) {
  const hn::CappedTag<T, kLanes> d;
  const hn::RebindToUnsigned<decltype(d)> bits;
  auto equal = hn::Zero(bits);
  for (std::size_t row = 0; row < count; row += kLanes) {
    for (std::size_t i = row; i < row + kLanes; i += hn::MaxLanes(d)) {
      const auto n = hn::BitCast(bits, hn::LoadU(d, reference + i));
      const auto b = hn::BitCast(bits, hn::LoadU(d, target + i));
      equal = hn::Sub(equal, hn::VecFromMask(bits, hn::Eq(n, b)));
    }
  }
  return hn::GetLane(hn::SumOfLanes(bits, equal));
}

template <typename Load>
class Block {
 public:
  using T = typename Load::T;

  HWY_INLINE Block(const void* reference, const void* target, float max_relative)
      : reference_(static_cast<const T*>(reference)),
        target_(static_cast<const T*>(target)),
        max_relative_(hn::Set(Floats(), max_relative)) {}

  HWY_INLINE void add_all(std::size_t count) {
    equal_bits_ = count_equal(reference_, target_, count);  // comes first: it asks for the memory ahead
    for (std::size_t v = 0; v < kVectors; ++v) {
      sums_.begin(v);
      for (std::size_t begin = 0; begin < count; begin += kRun) {
        const std::size_t end = end_of_run(begin, count);
        const Lanes first = add_lanes<0>(v, begin, end);
        const Lanes second = add_lanes<1>(v, begin, end);
        sums_.add(v, first, second);
      }
    }
  }

  HWY_INLINE bool take(BlockDifference* block) {
    const double reference_squares = sums_.reference_squares.total();
    const double target_squares = sums_.target_squares.total();
    const double squared_distance = sums_.squared_distance.total();
    const float max_absolute = largest(max_absolute_);
    if (!fit(reference_squares) || !fit(target_squares)) return false;
    if (max_absolute != 0 && !fit(squared_distance)) return false;
    block->reference_squares = reference_squares;
    block->target_squares = target_squares;
    block->squared_distance = squared_distance;
    block->dot = sums_.dot.total();
    block->reference_sum = sums_.reference_sum.total();
    block->target_sum = sums_.target_sum.total();
    block->max_absolute = max_absolute;
    block->equal_bits = equal_bits_;
    return true;
  }

  // Whether a pair may have a larger relative error than `max_relative`.
  HWY_INLINE bool has_larger() const { return largest(excess_) > 0; }

 private:
  // A division is dear; whether the quotient would be a new maximum is not. A target of zero is always in
  // excess, unless the reference is too.
  template <std::size_t group>
  HWY_INLINE Lanes add_lanes(std::size_t v, std::size_t begin, std::size_t end) {
    Lanes lanes;
    Vector max_absolute = max_absolute_;
    Vector excess = excess_;
    for (std::size_t i = begin; i < end; i += kLanes) {
      prefetch_row(group == 0 ? reference_ + i : target_ + i);
      const Vector n = Load::template load<group>(reference_ + i, v);
      const Vector b = Load::template load<group>(target_ + i, v);
      const Vector absolute = lanes.add(n, b);
      max_absolute = hn::Max(max_absolute, absolute);
      excess = hn::Max(excess, hn::NegMulAdd(hn::Abs(b), max_relative_, absolute));
    }
    max_absolute_ = max_absolute;
    excess_ = excess;
    return lanes;
  }

  const T* reference_;
  const T* target_;
  Vector max_relative_;
  Sums sums_;
  Vector max_absolute_ = hn::Zero(Floats());
  Vector excess_ = hn::Zero(Floats());
  std::size_t equal_bits_ = 0;
};

// |reference - target| / |target|; where the target is zero, both get 2^-52 first.
HWY_INLINE Vector relative_error(Vector n, Vector b) {
  const Floats df;
  const auto shift = hn::IfThenElseZero(hn::Eq(b, hn::Zero(df)), hn::Set(df, 0x1p-52F));
  n = hn::Add(n, shift);
  b = hn::Add(b, shift);
  return hn::Abs(hn::Div(hn::Sub(n, b), b));
}

template <typename Load>
HWY_NOINLINE float max_relative(const void* reference, const void* target, std::size_t count) {
  const auto* n = static_cast<const typename Load::T*>(reference);
  const auto* b = static_cast<const typename Load::T*>(target);
  Vector most = hn::Zero(Floats());
  for (std::size_t i = 0; i < count; i += kLanes) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      most =
          hn::Max(most, relative_error(Load::template load<0>(n + i, v), Load::template load<0>(b + i, v)));
      most =
          hn::Max(most, relative_error(Load::template load<1>(n + i, v), Load::template load<1>(b + i, v)));
    }
  }
  return largest(most);
}

// ----------------------------------------------------------------------------------------- a block of equals

struct OneSide {
  Vector sum = hn::Zero(Floats());
  Vector squares = hn::Zero(Floats());

  HWY_INLINE OneSide() {}  // NOLINT(modernize-use-equals-default): as above

  HWY_INLINE void add(Vector x) {
    sum = hn::Add(sum, x);
    squares = hn::MulAdd(x, x, squares);
  }
};

// Both sides have the bits of `data`; `block` is that of no pairs.
template <typename Load>
bool add_equals(const void* data, std::size_t count, BlockDifference* block) {
  const auto* x = static_cast<const typename Load::T*>(data);
  Sum sum;
  Sum squares;
  Vector most = hn::Zero(Floats());
  for (std::size_t v = 0; v < kVectors; ++v) {
    sum.begin(v);
    squares.begin(v);
    for (std::size_t begin = 0; begin < count; begin += kRun) {
      const std::size_t end = end_of_run(begin, count);
      OneSide first;
      OneSide second;
      for (std::size_t i = begin; i < end; i += kLanes) {
        const Vector one = Load::template load<0>(x + i, v);
        const Vector other = Load::template load<1>(x + i, v);
        first.add(one);
        second.add(other);
        most = hn::Max(most, hn::Max(hn::Abs(one), hn::Abs(other)));
      }
      sum.add(v, first.sum, second.sum);
      squares.add(v, first.squares, second.squares);
    }
  }
  const double total = squares.total();
  const bool all_zero = largest(most) == 0 && total == 0;
  if (!fit(total) && !all_zero) return false;
  block->reference_squares = block->target_squares = block->dot = total;
  block->reference_sum = block->target_sum = sum.total();
  block->equal_bits = count;
  return true;
}

// ------------------------------------------------------------------------------------------------------------

template <typename Load>
bool add_block(const void* reference, const void* target, std::size_t count, BlockDifference* result) {
  if (std::memcmp(reference, target, count * sizeof(typename Load::T)) == 0) {
    return add_equals<Load>(reference, count, result);
  }
  Block<Load> block(reference, target, result->max_relative);
  block.add_all(count);
  if (!block.take(result)) return false;
  if (block.has_larger()) {
    const float found = max_relative<Load>(reference, target, count);
    if (found > result->max_relative) result->max_relative = found;
  }
  return true;
}

}  // namespace

void find_kernels_here(Kernels& kernels) {
  kernels.add_block[static_cast<std::size_t>(Element::kFloat32)] = add_block<Float32>;
  kernels.add_block[static_cast<std::size_t>(Element::kBFloat16)] = add_block<BFloat16>;
  kernels.add_block[static_cast<std::size_t>(Element::kFloat16)] = add_block<Float16>;
}

}  // namespace msprobe::checkpoint::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace msprobe::checkpoint {

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

}  // namespace msprobe::checkpoint
#endif

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// Highway compiles this file once per instruction set. See docs/adr/0004.

#include "perturb/kernels.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "base/kernel_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "perturb/kernels.cpp"
#include <hwy/foreach_target.h>

#include "base/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace msprobe::perturb::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using msprobe::HWY_NAMESPACE::BFloat16Elements;
using msprobe::HWY_NAMESPACE::Float16Elements;
using msprobe::HWY_NAMESPACE::SameElements;

constexpr std::size_t kWidth = 16;  // elements of a float vector at most
using Floats = hn::CappedTag<float, kWidth>;
using Doubles = hn::CappedTag<double, kWidth>;
using Halves = hn::Rebind<std::uint16_t, Floats>;

// ---- elements: how they are loaded and stored as vectors of D

template <typename Vectors>
struct Stored : SameElements<Vectors> {
  static HWY_INLINE void store(hn::Vec<Vectors> x, hn::TFromD<Vectors>* data) {
    hn::StoreU(x, Vectors(), data);
  }
};
using Float64 = Stored<Doubles>;
using Float32 = Stored<Floats>;

struct BFloat16 : BFloat16Elements<Floats> {
  // To the nearest, of two to the even one. NaN stays NaN.
  static HWY_INLINE void store(hn::Vec<D> x, T* data) {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(du, x);
    const auto high = hn::ShiftRight<16>(bits);
    const auto odd = hn::And(high, hn::Set(du, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(du, 0x7FFF)), odd));
    const auto is_nan = hn::RebindMask(du, hn::Not(hn::Eq(x, x)));
    const auto result = hn::IfThenElse(is_nan, hn::Or(high, hn::Set(du, 0x40)), rounded);
    const hn::Rebind<std::int32_t, D> di;
    hn::StoreU(hn::DemoteTo(Halves(), hn::BitCast(di, result)), Halves(), data);
  }
};

struct Float16 : Float16Elements<Floats> {
  // To the nearest, of two to the even one; by adding a number so large that the sum has the bits of the
  // result at its end.
  static HWY_INLINE void store(hn::Vec<D> x, T* data) {
    const D df;
    const hn::RebindToUnsigned<D> du;
    const hn::Rebind<std::int32_t, D> di;
    const auto bits = hn::BitCast(du, x);
    const auto sign = hn::ShiftRight<16>(hn::And(bits, hn::Set(du, 0x80000000U)));
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFFFFFFU));
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1));
    const auto normal = hn::ShiftRight<13>(
        hn::Add(hn::Add(hn::Sub(magnitude, hn::Set(du, 112U << 23)), hn::Set(du, 0xFFF)), odd));
    const auto denormal = hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(df, magnitude), hn::Set(df, 0.5F))),
                                  hn::Set(du, 0x3F000000U));
    const auto infinite =
        hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x7F800000U)), hn::Set(du, 0x7E00), hn::Set(du, 0x7C00));
    auto result = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, 113U << 23)), denormal, normal);
    result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x477FEFFFU)), infinite, result);
    hn::StoreU(hn::DemoteTo(Halves(), hn::BitCast(di, hn::Or(sign, result))), Halves(), data);
  }
};

// ---- loops over vectors; the rest is done in a vector of its own

template <typename T>
struct Rest {
  T elements[kWidth];
  HWY_INLINE Rest(const T* data, std::size_t count, T filling) {
    for (std::size_t i = 0; i < kWidth; ++i) elements[i] = i < count ? data[i] : filling;
  }
};

// 1 as bits of the type.
template <typename Load>
constexpr typename Load::T one() {
  if constexpr (std::is_same_v<Load, Float16>) return 0x3C00;
  if constexpr (std::is_same_v<Load, BFloat16>) return 0x3F80;
  return 1;
}

template <typename Original, typename Perturbed>
void add_ratios(const void* original, const void* perturbed, std::size_t count, double floor,
                RatioState* state) {
  using D = typename Perturbed::D;
  using F = hn::TFromD<D>;
  static_assert(std::is_same_v<D, typename Original::D>);
  const D d;
  const auto* o = static_cast<const typename Original::T*>(original);
  const auto* p = static_cast<const typename Perturbed::T*>(perturbed);
  const auto least = hn::Set(d, static_cast<F>(floor));
  const auto one_each = hn::Set(d, F{1});
  auto largest = one_each;
  auto smallest = one_each;
  auto product = hn::Zero(d);
  std::size_t nan = 0;
  const auto add = [&](hn::Vec<D> x, hn::Vec<D> y) HWY_ATTR {
    const auto ax = hn::Abs(x);
    const auto ay = hn::Abs(y);
    // A NaN is not below the floor, so it stays.
    const auto a = hn::IfThenElse(hn::Lt(ax, least), least, ax);
    const auto b = hn::IfThenElse(hn::Lt(ay, least), least, ay);
    auto ratio = hn::Div(a, b);
    const auto is_number = hn::Eq(ratio, ratio);
    if (HWY_UNLIKELY(!hn::AllTrue(d, is_number))) {
      ratio = hn::IfThenElse(is_number, ratio, one_each);
      nan += hn::CountTrue(d, hn::Xor(hn::Eq(x, x), hn::Eq(y, y)));
    }
    const auto both = hn::Mul(x, y);
    largest = hn::Max(largest, ratio);
    smallest = hn::Min(smallest, ratio);
    product = hn::Min(product, hn::IfThenElseZero(hn::Eq(both, both), both));
  };
  const std::size_t width = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + width <= count; i += width) add(Original::load(o + i), Perturbed::load(p + i));
  for (; i < count; i += width) {
    const Rest<typename Original::T> x(o + i, count - i, one<Original>());
    const Rest<typename Perturbed::T> y(p + i, count - i, one<Perturbed>());
    add(Original::load(x.elements), Perturbed::load(y.elements));
  }
  state->largest = std::max(state->largest, static_cast<double>(hn::GetLane(hn::MaxOfLanes(d, largest))));
  state->smallest = std::min(state->smallest, static_cast<double>(hn::GetLane(hn::MinOfLanes(d, smallest))));
  state->least_product =
      std::min(state->least_product, static_cast<double>(hn::GetLane(hn::MinOfLanes(d, product))));
  state->one_sided_nan += static_cast<std::int64_t>(nan);
}

template <typename Load>
double add_noise(const void* from, void* to, std::size_t count, double noise, double root) {
  using D = typename Load::D;
  using F = hn::TFromD<D>;
  const D d;
  const auto* in = static_cast<const typename Load::T*>(from);
  auto* out = static_cast<typename Load::T*>(to);
  const auto added = hn::Set(d, static_cast<F>(noise));
  const auto above = hn::Set(d, static_cast<F>(root));
  auto largest = hn::Zero(d);
  const auto one_vector = [&](const typename Load::T* source, typename Load::T* target) HWY_ATTR {
    const auto x = Load::load(source);
    const auto magnitude = hn::Abs(x);
    largest = hn::Max(largest, hn::IfThenElseZero(hn::Eq(magnitude, magnitude), magnitude));
    Load::store(hn::IfThenElse(hn::Gt(magnitude, above), hn::Add(x, added), x), target);
  };
  const std::size_t width = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + width <= count; i += width) one_vector(in + i, out + i);
  for (; i < count; i += width) {
    Rest<typename Load::T> rest(in + i, count - i, 0);
    one_vector(rest.elements, rest.elements);
    std::copy_n(rest.elements, std::min(width, count - i), out + i);
  }
  return static_cast<double>(hn::GetLane(hn::MaxOfLanes(d, largest)));
}

template <typename Word>
std::uint64_t flip_last_bits(const void* from, void* to, std::size_t count, std::uint64_t smallest_normal,
                             std::uint64_t infinity) {
  const hn::CappedTag<Word, 64 / sizeof(Word)> d;
  const auto* in = static_cast<const Word*>(from);
  auto* out = static_cast<Word*>(to);
  using Signed = hn::RebindToSigned<decltype(d)>;
  const Signed ds;  // magnitudes are not negative: comparing them as signed numbers is right, and cheaper
  const auto magnitude_bits =
      hn::Set(d, static_cast<Word>(std::numeric_limits<std::make_signed_t<Word>>::max()));
  const auto smallest = hn::BitCast(ds, hn::Set(d, static_cast<Word>(smallest_normal)));
  const auto infinite = hn::BitCast(ds, hn::Set(d, static_cast<Word>(infinity)));
  auto largest = hn::Zero(ds);
  const auto one_vector = [&](const Word* source, Word* target) HWY_ATTR {
    const auto word = hn::LoadU(d, source);
    const auto magnitude = hn::BitCast(ds, hn::And(word, magnitude_bits));
    const auto is_number = hn::Not(hn::Gt(magnitude, infinite));
    largest = hn::IfThenElse(hn::And(is_number, hn::Gt(magnitude, largest)), magnitude, largest);
    const auto flips = hn::And(hn::Gt(magnitude, smallest), hn::Gt(infinite, magnitude));
    const auto last_bit = hn::And(hn::BitCast(d, hn::VecFromMask(ds, flips)), hn::Set(d, Word{1}));
    hn::StoreU(hn::Xor(word, last_bit), d, target);
  };
  constexpr std::size_t width = hn::MaxLanes(decltype(d)());
  std::size_t i = 0;
  for (; i + width <= count; i += width) one_vector(in + i, out + i);
  if (i < count) {
    Word rest[width] = {};
    std::copy_n(in + i, count - i, rest);
    one_vector(rest, rest);
    std::copy_n(rest, count - i, out + i);
  }
  std::make_signed_t<Word> lanes[width];
  hn::StoreU(largest, ds, lanes);
  return static_cast<std::uint64_t>(*std::max_element(lanes, lanes + width));
}

void add_distance(const double* original, const double* cpu, std::size_t count, DistanceState* state) {
  const Doubles d;
  const auto one_each = hn::Set(d, 1.0);
  auto absolute = hn::Zero(d);
  auto relative = hn::Zero(d);
  auto sum = hn::Zero(d);
  bool has_nan = false;
  bool finite = true;
  const auto add = [&](hn::Vec<Doubles> o, hn::Vec<Doubles> c) HWY_ATTR {
    finite = finite && hn::AllTrue(d, hn::Lt(hn::Abs(c), hn::Inf(d)));
    // Two infinities of one sign are alike.
    auto error = hn::IfThenElse(hn::Eq(o, c), hn::Zero(d), hn::Sub(o, c));
    const auto is_number = hn::Eq(error, error);
    has_nan = has_nan || !hn::AllTrue(d, is_number);
    error = hn::IfThenElseZero(is_number, error);
    const auto size = hn::Abs(o);
    const auto is_small = hn::Lt(size, one_each);
    absolute = hn::Max(absolute, hn::IfThenElseZero(is_small, hn::Abs(error)));
    const auto divisor = hn::IfThenElse(hn::Or(is_small, hn::Eq(size, hn::Inf(d))), one_each, size);
    const auto share = hn::Div(error, divisor);
    const auto of_large = hn::IfThenElse(is_small, hn::Zero(d), hn::Abs(share));
    relative = hn::Max(relative, hn::IfThenElseZero(hn::Eq(of_large, of_large), of_large));
    sum = hn::Add(sum, hn::IfThenElseZero(hn::Eq(share, share), share));
  };
  const std::size_t width = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + width <= count; i += width) add(hn::LoadU(d, original + i), hn::LoadU(d, cpu + i));
  for (; i < count; i += width) {
    const Rest<double> x(original + i, count - i, 0);
    const Rest<double> y(cpu + i, count - i, 0);
    add(hn::LoadU(d, x.elements), hn::LoadU(d, y.elements));
  }
  state->absolute = std::max(state->absolute, hn::GetLane(hn::MaxOfLanes(d, absolute)));
  state->relative = std::max(state->relative, hn::GetLane(hn::MaxOfLanes(d, relative)));
  state->signed_sum += hn::GetLane(hn::SumOfLanes(d, sum));
  state->has_nan = state->has_nan || has_nan;
  state->other_is_finite = state->other_is_finite && finite;
}

template <typename Original, typename Perturbed>
void put(Kernels& kernels, Element original, Element perturbed) {
  kernels.add_ratios[static_cast<std::size_t>(original)][static_cast<std::size_t>(perturbed)] =
      add_ratios<Original, Perturbed>;
}

}  // namespace

void find_kernels_here(Kernels& kernels) {
  put<Float64, Float64>(kernels, Element::kFloat64, Element::kFloat64);
  put<Float32, Float32>(kernels, Element::kFloat32, Element::kFloat32);
  put<Float16, Float16>(kernels, Element::kFloat16, Element::kFloat16);
  put<BFloat16, BFloat16>(kernels, Element::kBFloat16, Element::kBFloat16);
  put<Float16, Float32>(kernels, Element::kFloat16, Element::kFloat32);
  put<BFloat16, Float32>(kernels, Element::kBFloat16, Element::kFloat32);
  kernels.flip_last_bits[0] = flip_last_bits<std::uint16_t>;
  kernels.flip_last_bits[1] = flip_last_bits<std::uint32_t>;
  kernels.flip_last_bits[2] = flip_last_bits<std::uint64_t>;
  kernels.add_distance = add_distance;
  kernels.add_noise[static_cast<std::size_t>(Element::kFloat64)] = add_noise<Float64>;
  kernels.add_noise[static_cast<std::size_t>(Element::kFloat32)] = add_noise<Float32>;
  kernels.add_noise[static_cast<std::size_t>(Element::kFloat16)] = add_noise<Float16>;
  kernels.add_noise[static_cast<std::size_t>(Element::kBFloat16)] = add_noise<BFloat16>;
}

}  // namespace msprobe::perturb::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace msprobe::perturb {

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

}  // namespace msprobe::perturb
#endif

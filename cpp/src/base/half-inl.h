// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// 16-bit floats in vectors, for the instruction set that Highway compiles at the moment: so the
// include guard lets it in once for each.

#if defined(MSPROBE_BASE_HALF_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MSPROBE_BASE_HALF_INL_H
#undef MSPROBE_BASE_HALF_INL_H
#else
#define MSPROBE_BASE_HALF_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/half.h"

HWY_BEFORE_NAMESPACE();
namespace msprobe::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// float16 to float, for vectors of D's floats. The emulation that Highway has for processors without the
// instruction knows no Inf and no NaN.
template <typename D>
HWY_INLINE hn::Vec<D> promote_f16(D df, hn::Vec<hn::Rebind<std::uint16_t, D>> half) {
#if HWY_TARGET == HWY_NEON || (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2)
  return hn::PromoteTo(df, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), half));
#else
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::PromoteTo(du, half);
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000)));
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFF));
  const auto shifted = hn::ShiftLeft<13>(magnitude);
  // The exponents differ by 112; a multiplication adjusts it for denormals as well.
  const auto finite = hn::BitCast(du, hn::Mul(hn::BitCast(df, shifted), hn::Set(df, 0x1p112F)));
  const auto special = hn::Or(shifted, hn::Set(du, 0x7F800000));
  const auto quiet =
      hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x7C00)), hn::Set(du, 0x00400000), hn::Zero(du));
  const auto value = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x7BFF)), hn::Or(special, quiet), finite);
  return hn::BitCast(df, hn::Or(sign, value));
#endif
}

HWY_INLINE float widen_one(std::uint16_t bits, Half kind) {
  if (kind == Half::kBFloat16) {
    const std::uint32_t word = static_cast<std::uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &word, sizeof value);
    return value;
  }
  const hn::CappedTag<float, 1> df;
  const hn::Rebind<std::uint16_t, decltype(df)> d16;
  return hn::GetLane(promote_f16(df, hn::Set(d16, bits)));
}

}  // namespace
}  // namespace msprobe::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

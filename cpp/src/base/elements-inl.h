// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// Elements of a tensor as vectors of D, in which a kernel computes; for the instruction set that
// Highway compiles at the moment: so the include guard lets it in once for each.

#if defined(MSPROBE_BASE_ELEMENTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MSPROBE_BASE_ELEMENTS_INL_H
#undef MSPROBE_BASE_ELEMENTS_INL_H
#else
#define MSPROBE_BASE_ELEMENTS_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "base/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace msprobe::HWY_NAMESPACE {
namespace {

// float32 as vectors of floats, float64 as vectors of doubles.
template <typename Vectors>
struct SameElements {
  using T = hn::TFromD<Vectors>;
  using D = Vectors;
  static HWY_INLINE hn::Vec<D> load(const T* data) { return hn::LoadU(D(), data); }
};

template <typename Floats>
struct BFloat16Elements {
  using T = std::uint16_t;
  using D = Floats;
  static HWY_INLINE hn::Vec<D> load(const T* data) {
    const hn::RebindToUnsigned<D> du;
    const hn::Rebind<std::uint16_t, D> d16;
    return hn::BitCast(D(), hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, data))));
  }
};

template <typename Floats>
struct Float16Elements {
  using T = std::uint16_t;
  using D = Floats;
  static HWY_INLINE hn::Vec<D> load(const T* data) {
    return promote_f16(D(), hn::LoadU(hn::Rebind<std::uint16_t, D>(), data));
  }
};

}  // namespace
}  // namespace msprobe::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

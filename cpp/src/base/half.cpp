// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// Highway compiles this file once per instruction set. See docs/adr/0004.

#include "base/half.h"

#include "base/kernel_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "base/half.cpp"
#include <hwy/foreach_target.h>

#include "base/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace msprobe::HWY_NAMESPACE {
namespace {

void widen(const std::uint16_t* HWY_RESTRICT data, std::size_t count, Half kind, float* HWY_RESTRICT out) {
  const hn::CappedTag<float, 16> df;
  using Floats = decltype(df);
  constexpr std::size_t width = hn::MaxLanes(df);
  std::size_t i = 0;
  if (kind == Half::kBFloat16) {
    for (; i + width <= count; i += width) {
      hn::StoreU(BFloat16Elements<Floats>::load(data + i), df, out + i);
    }
  } else {
    for (; i + width <= count; i += width) hn::StoreU(Float16Elements<Floats>::load(data + i), df, out + i);
  }
  for (; i < count; ++i) out[i] = widen_one(data[i], kind);
}

}  // namespace

using Widen = void (*)(const std::uint16_t*, std::size_t, Half, float*);
void find_widen_here(Widen& found) { found = widen; }

}  // namespace msprobe::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace msprobe {

HWY_EXPORT(find_widen_here);

void widen_half(const std::uint16_t* data, std::size_t count, Half kind, float* out) {
  static const auto widen = [] {
    use_best_instruction_set();
    void (*found)(const std::uint16_t*, std::size_t, Half, float*) = nullptr;
    HWY_DYNAMIC_DISPATCH(find_widen_here)(found);
    return found;
  }();
  widen(data, count, kind, out);
}

}  // namespace msprobe
#endif

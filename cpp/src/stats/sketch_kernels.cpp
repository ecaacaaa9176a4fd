// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// Sketches of doubles, and digests alone. Highway compiles this file once per instruction set. See
// docs/adr/0004.

#include "base/kernel_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stats/sketch_kernels.cpp"
#include <hwy/foreach_target.h>

#include "stats/sketch-inl.h"

HWY_BEFORE_NAMESPACE();
namespace msprobe::stats::HWY_NAMESPACE {
namespace {

void sketch_f64(const void* data, std::size_t count, std::size_t place, std::uint64_t factor,
                GroupSums* HWY_RESTRICT group) {
  const Doubles dd;
  const hn::RebindToUnsigned<Doubles> du;
  const hn::Rebind<std::uint32_t, Doubles> d32;
  const auto* HWY_RESTRICT bytes = static_cast<const std::uint8_t*>(data);
  Digest<4> digest;
  hn::Vec<Doubles> chain[kDoubleVectors];
  for (auto& vector : chain) vector = hn::Zero(dd);
  for (std::size_t i = 0; i < count; i += kLanes) {
    const auto run = static_cast<position::Word>((place + i) / kRun);
    const auto turn = hn::Set(du, std::uint64_t{position::run_sign(factor, run)} << 63);
    for (std::size_t v = 0; v < kDoubleVectors; ++v) {
      const std::size_t at = i + v * kDoubleWidth;
      const auto own = hn::PromoteTo(du, hn::LoadU(d32, kSigns.data() + place + at));
      const auto x = load_bytes(du, bytes + 8 * at);
      chain[v] = hn::Add(chain[v], hn::BitCast(dd, hn::Xor3(x, hn::ShiftLeft<32>(own), turn)));
    }
    for (std::size_t k = 0; k < 2 * kLanes; k += kFloatWidth) {
      digest.add(bytes + 8 * i + 4 * k, 2 * (place + i) + k);
    }
  }
  HWY_ALIGN double lanes[kLanes];
  for (std::size_t v = 0; v < kDoubleVectors; ++v) hn::Store(chain[v], dd, lanes + v * kDoubleWidth);
  group->sums.fill(0);
  fold(lanes, group->sums.data());
  group->digest = digest.sum();
}

template <std::size_t kSize>
std::uint64_t digest_of(const void* data, std::size_t words, std::size_t first) {
  Digest<kSize> digest;
  for (std::size_t i = 0; i < words; i += kFloatWidth) {
    digest.add(static_cast<const std::uint8_t*>(data) + 4 * i, first + i);
  }
  return digest.sum();
}

std::uint64_t digest(const void* data, std::size_t words, std::size_t first, std::size_t size) {
  if (size == 1) return digest_of<1>(data, words, first);
  return size == 2 ? digest_of<2>(data, words, first) : digest_of<4>(data, words, first);
}

}  // namespace

void add_sketch_kernels_here(Kernels& kernels) {
  kernels.sketch_f64 = sketch_f64;
  kernels.digest = digest;
}

}  // namespace msprobe::stats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace msprobe::stats {

HWY_EXPORT(add_sketch_kernels_here);

void add_sketch_kernels(Kernels& kernels) { HWY_DYNAMIC_DISPATCH(add_sketch_kernels_here)(kernels); }

}  // namespace msprobe::stats
#endif

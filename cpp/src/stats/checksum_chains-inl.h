// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// Chains of float additions together with the checksum of the float32 values, for the instruction set that
// Highway compiles at the moment. The multiplications of the one and the additions of the other use different
// units of the processor: one loop takes hardly longer than the slower of two.

#if defined(MSPROBE_STATS_CHECKSUM_CHAINS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MSPROBE_STATS_CHECKSUM_CHAINS_INL_H
#undef MSPROBE_STATS_CHECKSUM_CHAINS_INL_H
#else
#define MSPROBE_STATS_CHECKSUM_CHAINS_INL_H
#endif

#include "base/crc32.h"
#include "base/crc32_avx512.h"
#include "stats/chains-inl.h"

// Clang 14 does not give templates the instruction set that is pushed below on top of Highway's.
#undef MSPROBE_CHECKSUM_CHAINS
#if MSPROBE_CRC32_AVX512 && !HWY_COMPILER_CLANG && HWY_TARGET <= HWY_AVX3 && defined(HWY_TARGET_STR)
#define MSPROBE_CHECKSUM_CHAINS 1

HWY_BEFORE_NAMESPACE();
namespace msprobe::stats::HWY_NAMESPACE {
namespace {

// Not every processor with AVX-512 multiplies without carry in it.
inline bool can_chain_checksums() {
  const Crc32Folding* folding = best_crc32_folding();
  return folding != nullptr && folding == find_crc32_folding("AVX3");
}

HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR "," MSPROBE_CRC32_AVX512_TARGET)

// The kernel for one dtype, described by `Kind`: State and how to start() and store() it, add_step() for
// 2 * kLanes elements, kChain, Message for the elements as what is folded, and add_rest() for less than a
// chain. `count` is a multiple of kChain.
template <typename Kind>
void add_chains_with_checksum(const typename Kind::Element* HWY_RESTRICT data, std::size_t count,
                              Lanes<float>* HWY_RESTRICT lanes, FoldedCrc32& folded) {
  using Register = crc32_avx512::Register;
  using Message = typename Kind::Message;
  constexpr std::size_t registers = 8;
  constexpr std::size_t width = sizeof(Register) / sizeof(float);  // elements of a register
  static_assert(sizeof(FoldedCrc32) == registers * sizeof(Register) && width == kLanes);
  static_assert(Kind::kChain % (registers * width) == 0);
  const Register factors = crc32_avx512::broadcast(kCrc32Factors<sizeof(FoldedCrc32)>);
  Register crc[registers];
  for (std::size_t r = 0; r < registers; r += 2) {
    Message::load(folded.bytes + r * sizeof(Register), crc[r], crc[r + 1]);
  }
  typename Kind::State state = Kind::start(*lanes);
  for (const auto* end = data + count; data < end;) {
    FloatSums sums;
    for (const auto* end_of_chain = data + Kind::kChain; data < end_of_chain; data += registers * width) {
#pragma GCC unroll 4
      for (std::size_t r = 0; r < registers; r += 2) {
        const auto* at = data + r * width;
        Kind::add_step(at, state, sums);
        Register a;
        Register b;
        Message::read(reinterpret_cast<const typename Message::Element*>(at), a, b);
        crc[r] = crc32_avx512::fold_onto(a, crc[r], factors);
        crc[r + 1] = crc32_avx512::fold_onto(b, crc[r + 1], factors);
      }
    }
    sums.flush_to(lanes);
  }
  Kind::store(state, *lanes);
  for (std::size_t r = 0; r < registers; r += 2) {
    Message::store(crc[r], crc[r + 1], folded.bytes + r * sizeof(Register));
  }
}

template <typename Kind>
void fast_with_checksum(const typename Kind::Element* data, std::size_t count, Lanes<float>* lanes,
                        Crc32& checksum) {
  const std::size_t chained = count - count % Kind::kChain;
  if (chained > 0) {
    add_chains_with_checksum<Kind>(data, chained, lanes, checksum.folded(chained * sizeof(float)));
  }
  Kind::add_rest(data + chained, count - chained, lanes, checksum);
}

HWY_POP_ATTRIBUTES

}  // namespace
}  // namespace msprobe::stats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#else
#define MSPROBE_CHECKSUM_CHAINS 0
#endif

#endif

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The steps of folding on 512 bits (see crc32_fold.h), for loops that fold: base/crc32_fold.cpp, and the
/// kernel that takes statistics in the same loop. The functions become part of callers that are compiled for
/// MSPROBE_CRC32_AVX512_TARGET and more; a processor has it where find_crc32_folding("AVX3") is not null.

#include <hwy/base.h>  // HWY_PUSH_ATTRIBUTES: code for another instruction set than the file's

#include <cstdint>

#include "base/crc32_polynomial.h"

#if defined(__x86_64__) && (HWY_COMPILER_GCC || HWY_COMPILER_CLANG)
#define MSPROBE_CRC32_AVX512 1
#define MSPROBE_CRC32_AVX512_TARGET "avx512f,vpclmulqdq,pclmul"
#include <immintrin.h>

// GCC 12 takes the undefined vectors inside its own intrinsics for a mistake (GCC bug 105593), and says so
// at the end of the file that uses them: this cannot be taken back here.
#if !HWY_COMPILER_CLANG
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace msprobe::crc32_avx512 {
HWY_PUSH_ATTRIBUTES(MSPROBE_CRC32_AVX512_TARGET)

using Register = __m512i;

HWY_INLINE Register load(const std::uint8_t* bytes) { return _mm512_loadu_si512(bytes); }
HWY_INLINE Register load(const std::uint16_t* bfloat16) {
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bfloat16));
  return _mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16);
}
HWY_INLINE void store(Register x, std::uint8_t* bytes) { _mm512_storeu_si512(bytes, x); }
HWY_INLINE Register broadcast(Crc32Factors f) {
  const auto lower = static_cast<long long>(f.lower);
  const auto upper = static_cast<long long>(f.upper);
  return _mm512_set4_epi64(upper, lower, upper, lower);
}
HWY_INLINE Register fold_onto(Register later, Register x, Register factors) {
  return _mm512_ternarylogic_epi64(later, _mm512_clmulepi64_epi128(x, factors, 0x00),
                                   _mm512_clmulepi64_epi128(x, factors, 0x11), 0x96);  // all three added
}

HWY_POP_ATTRIBUTES
}  // namespace msprobe::crc32_avx512

#else
#define MSPROBE_CRC32_AVX512 0
#endif

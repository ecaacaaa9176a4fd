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
#define MSPROBE_CRC32_AVX512_TARGET "avx512f,avx512bw,vpclmulqdq,pclmul"
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

/// What is folded, in pairs of registers: read() gets two registers of the message, load() and store() those
/// that have been folded so far.
struct Bytes {
  using Element = std::uint8_t;
  static HWY_INLINE void read(const Element* message, Register& a, Register& b) { load(message, a, b); }
  static HWY_INLINE void load(const std::uint8_t* bytes, Register& a, Register& b) {
    a = crc32_avx512::load(bytes);
    b = crc32_avx512::load(bytes + sizeof(Register));
  }
  static HWY_INLINE void store(Register a, Register b, std::uint8_t* bytes) {
    crc32_avx512::store(a, bytes);
    crc32_avx512::store(b, bytes + sizeof(Register));
  }
};

/// bfloat16 as float32: half of their bits are zero. The first register has every second 16 bytes of the
/// message, the other one those between, which is what interleaving with zeros gives at once.
struct WidenedBFloat16 {
  using Element = std::uint16_t;
  static HWY_INLINE void read(const Element* message, Register& a, Register& b) {
    const Register bits = _mm512_loadu_si512(message);
    a = _mm512_unpacklo_epi16(_mm512_setzero_si512(), bits);
    b = _mm512_unpackhi_epi16(_mm512_setzero_si512(), bits);
  }
  static HWY_INLINE void load(const std::uint8_t* bytes, Register& a, Register& b) {
    Register first;
    Register second;
    Bytes::load(bytes, first, second);
    a = _mm512_permutex2var_epi64(first, _mm512_set_epi64(13, 12, 9, 8, 5, 4, 1, 0), second);
    b = _mm512_permutex2var_epi64(first, _mm512_set_epi64(15, 14, 11, 10, 7, 6, 3, 2), second);
  }
  static HWY_INLINE void store(Register a, Register b, std::uint8_t* bytes) {
    Bytes::store(_mm512_permutex2var_epi64(a, _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0), b),
                 _mm512_permutex2var_epi64(a, _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4), b), bytes);
  }
};

HWY_POP_ATTRIBUTES
}  // namespace msprobe::crc32_avx512

#else
#define MSPROBE_CRC32_AVX512 0
#endif

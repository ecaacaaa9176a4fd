// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "base/crc32_fold.h"

#include <hwy/base.h>  // HWY_PUSH_ATTRIBUTES: code for another instruction set than the file's
#include <libdeflate.h>

#include <cstdlib>

#include "base/crc32_polynomial.h"

#if defined(__x86_64__) && (HWY_COMPILER_GCC || HWY_COMPILER_CLANG)
#define MSPROBE_FOLD_CRC32 1
#include <immintrin.h>
#else
#define MSPROBE_FOLD_CRC32 0
#endif

namespace msprobe {
namespace {

#if MSPROBE_FOLD_CRC32

// GCC 12 takes the undefined vectors inside its own intrinsics for a mistake (GCC bug 105593).
#if !HWY_COMPILER_CLANG
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

// Memory is asked for this far ahead: while a block is folded that others have just read, the next one comes.
HWY_INLINE void prefetch(const void* data, std::size_t bytes) {
  const auto* ahead = static_cast<const std::uint8_t*>(data) + 32 * bytes;
  for (std::size_t line = 0; line < bytes; line += 64) __builtin_prefetch(ahead + line);
}

// What an element gives to the message: a byte itself, a bfloat16 a float32.
template <typename Element>
constexpr std::size_t kMessageBytes = sizeof(Element) == 1 ? 1 : 4;

// What the two halves of 128 bits are multiplied by to move them `bytes` ahead.
//
// Bit i of a half is the coefficient of x^(63-i), in the lower half times x^64 for its place. A product has
// the bits i + j of its factors' bits, so that as 128 bits, with bit 127 for x^0, it is the product of the
// polynomials times x: hence one power less. A remainder of 32 bits is the upper half of a factor.
struct Factors {
  std::uint64_t lower;
  std::uint64_t upper;
};

template <std::uint64_t bytes>
constexpr Factors kFactors{std::uint64_t{crc32_power_of_x(8 * bytes + 63)} << 32,
                           std::uint64_t{crc32_power_of_x(8 * bytes - 1)} << 32};

namespace wide {  // 512 bits
HWY_PUSH_ATTRIBUTES("avx512f,vpclmulqdq,pclmul")

using Register = __m512i;
constexpr std::string_view kInstructionSet = "AVX3";

HWY_INLINE Register load(const std::uint8_t* bytes) { return _mm512_loadu_si512(bytes); }
HWY_INLINE Register load(const std::uint16_t* bfloat16) {
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bfloat16));
  return _mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16);
}
HWY_INLINE void store(Register x, std::uint8_t* bytes) { _mm512_storeu_si512(bytes, x); }
HWY_INLINE Register broadcast(Factors f) {
  return _mm512_set_epi64(f.upper, f.lower, f.upper, f.lower, f.upper, f.lower, f.upper, f.lower);
}
HWY_INLINE Register add_to_front(Register x, std::uint32_t word) {
  return _mm512_xor_si512(x, _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(word))));
}
HWY_INLINE Register fold_onto(Register later, Register x, Register factors) {
  return _mm512_ternarylogic_epi64(later, _mm512_clmulepi64_epi128(x, factors, 0x00),
                                   _mm512_clmulepi64_epi128(x, factors, 0x11), 0x96);  // all three added
}

#include "base/crc32_fold-inl.h"
HWY_POP_ATTRIBUTES
}  // namespace wide

namespace narrow {  // 256 bits
HWY_PUSH_ATTRIBUTES("avx2,vpclmulqdq,pclmul")

using Register = __m256i;
constexpr std::string_view kInstructionSet = "AVX2";

HWY_INLINE Register load(const std::uint8_t* bytes) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
}
HWY_INLINE Register load(const std::uint16_t* bfloat16) {
  const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bfloat16));
  return _mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16);
}
HWY_INLINE void store(Register x, std::uint8_t* bytes) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(bytes), x);
}
HWY_INLINE Register broadcast(Factors f) { return _mm256_set_epi64x(f.upper, f.lower, f.upper, f.lower); }
HWY_INLINE Register add_to_front(Register x, std::uint32_t word) {
  return _mm256_xor_si256(x, _mm256_zextsi128_si256(_mm_cvtsi32_si128(static_cast<int>(word))));
}
HWY_INLINE Register fold_onto(Register later, Register x, Register factors) {
  return _mm256_xor_si256(later, _mm256_xor_si256(_mm256_clmulepi64_epi128(x, factors, 0x00),
                                                  _mm256_clmulepi64_epi128(x, factors, 0x11)));
}

#include "base/crc32_fold-inl.h"
HWY_POP_ATTRIBUTES
}  // namespace narrow

#endif

}  // namespace

const Crc32Folding* find_crc32_folding(std::string_view instruction_set) noexcept {
#if MSPROBE_FOLD_CRC32
  if (__builtin_cpu_supports("vpclmulqdq") == 0) return nullptr;
  if (instruction_set == wide::kInstructionSet && __builtin_cpu_supports("avx512f")) return &wide::kFolding;
  if (instruction_set == narrow::kInstructionSet && __builtin_cpu_supports("avx2")) return &narrow::kFolding;
#endif
  return nullptr;
}

const Crc32Folding* best_crc32_folding() noexcept {
  static const Crc32Folding* const best = [] {
    if (const char* only = std::getenv("MSPROBE_INSTRUCTION_SET")) return find_crc32_folding(only);
    const Crc32Folding* widest = find_crc32_folding("AVX3");
    return widest != nullptr ? widest : find_crc32_folding("AVX2");
  }();
  return best;
}

}  // namespace msprobe

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "base/crc32_fold.h"

#include <libdeflate.h>

#include <cstdlib>

#include "base/crc32_avx512.h"
#include "base/crc32_polynomial.h"

namespace msprobe {
namespace {

#if MSPROBE_CRC32_AVX512

// Memory is asked for this far ahead: while a block is folded that others have just read, the next ones come.
HWY_INLINE void prefetch(const void* data, std::size_t bytes) {
  const auto* ahead = static_cast<const std::uint8_t*>(data) + 32 * bytes;
  for (std::size_t line = 0; line < bytes; line += 64) __builtin_prefetch(ahead + line);
}

namespace wide {  // 512 bits
HWY_PUSH_ATTRIBUTES(MSPROBE_CRC32_AVX512_TARGET)
using namespace crc32_avx512;
constexpr std::string_view kInstructionSet = "AVX3";
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
HWY_INLINE void store(Register x, std::uint8_t* bytes) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(bytes), x);
}
HWY_INLINE Register broadcast(Crc32Factors f) {
  return _mm256_broadcastsi128_si256(
      _mm_set_epi64x(static_cast<long long>(f.upper), static_cast<long long>(f.lower)));
}
HWY_INLINE Register fold_onto(Register later, Register x, Register factors) {
  return _mm256_xor_si256(later, _mm256_xor_si256(_mm256_clmulepi64_epi128(x, factors, 0x00),
                                                  _mm256_clmulepi64_epi128(x, factors, 0x11)));
}

// As those of crc32_avx512.h.
struct Bytes {
  using Element = std::uint8_t;
  static HWY_INLINE void read(const Element* message, Register& a, Register& b) { load(message, a, b); }
  static HWY_INLINE void load(const std::uint8_t* bytes, Register& a, Register& b) {
    a = narrow::load(bytes);
    b = narrow::load(bytes + sizeof(Register));
  }
  static HWY_INLINE void store(Register a, Register b, std::uint8_t* bytes) {
    narrow::store(a, bytes);
    narrow::store(b, bytes + sizeof(Register));
  }
};

struct WidenedBFloat16 {
  using Element = std::uint16_t;
  static HWY_INLINE void read(const Element* message, Register& a, Register& b) {
    const Register bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(message));
    a = _mm256_unpacklo_epi16(_mm256_setzero_si256(), bits);
    b = _mm256_unpackhi_epi16(_mm256_setzero_si256(), bits);
  }
  static HWY_INLINE void load(const std::uint8_t* bytes, Register& a, Register& b) {
    Bytes::load(bytes, a, b);
    exchange(a, b);
  }
  static HWY_INLINE void store(Register a, Register b, std::uint8_t* bytes) {
    exchange(a, b);
    Bytes::store(a, b, bytes);
  }

 private:
  // The upper half of the one and the lower half of the other.
  static HWY_INLINE void exchange(Register& a, Register& b) {
    const Register lower = _mm256_permute2x128_si256(a, b, 0x20);
    b = _mm256_permute2x128_si256(a, b, 0x31);
    a = lower;
  }
};

#include "base/crc32_fold-inl.h"
HWY_POP_ATTRIBUTES
}  // namespace narrow

#endif

}  // namespace

const Crc32Folding* find_crc32_folding([[maybe_unused]] std::string_view instruction_set) noexcept {
#if MSPROBE_CRC32_AVX512
  if (__builtin_cpu_supports("vpclmulqdq") == 0) return nullptr;
  // Highway has several kinds of AVX-512, all called AVX3 and something.
  const bool is_wide = instruction_set.starts_with(wide::kInstructionSet);
  if (is_wide && __builtin_cpu_supports("avx512bw")) return &wide::kFolding;
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

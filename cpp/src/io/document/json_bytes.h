// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Where runs of like characters end, many characters at a time. What is searched has zeros behind its end,
/// at least kJsonZeros: they stop every search, and vectors may be read beyond it.

#include <bit>
#include <cstddef>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace msprobe::io {

inline constexpr std::size_t kJsonZeros = 32;

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

#ifdef __SSE2__

inline unsigned bits_of(__m128i bytes) { return static_cast<unsigned>(_mm_movemask_epi8(bytes)); }
inline __m128i sixteen_bytes(const char* text) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(text));
}

inline char* after_space(char* p) {
  for (;; p += 16) {
    const __m128i bytes = sixteen_bytes(p);
    const auto is = [bytes](char c) { return _mm_cmpeq_epi8(bytes, _mm_set1_epi8(c)); };
    const unsigned other =
        ~bits_of(_mm_or_si128(_mm_or_si128(is(' '), is('\n')), _mm_or_si128(is('\t'), is('\r')))) & 0xffff;
    if (other != 0) return p + std::countr_zero(other);
  }
}

inline char* after_blanks(char* p) {
  for (;; p += 16) {
    const unsigned other = ~bits_of(_mm_cmpeq_epi8(sixteen_bytes(p), _mm_set1_epi8(' '))) & 0xffff;
    if (other != 0) return p + std::countr_zero(other);
  }
}

inline char* after_digits(char* p) {
  for (;; p += 16) {
    const __m128i values =
        _mm_sub_epi8(sixteen_bytes(p), _mm_set1_epi8('0'));  // of others than digits: above 9
    const unsigned other = ~bits_of(_mm_cmpeq_epi8(_mm_min_epu8(values, _mm_set1_epi8(9)), values)) & 0xffff;
    if (other != 0) return p + std::countr_zero(other);
  }
}

// The first character that ends a piece of text; `high` tells whether others than ASCII stand before it.
inline char* end_of_plain_text(char* p, bool& high) {
  for (;; p += 16) {
    const __m128i bytes = sixteen_bytes(p);
    const __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
    const unsigned stop =
        bits_of(_mm_or_si128(control, _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')),
                                                   _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')))));
    const unsigned beyond = bits_of(bytes);
    if (stop != 0) {
      high |= (beyond & ((stop & (0U - stop)) - 1)) != 0;
      return p + std::countr_zero(stop);
    }
    high |= beyond != 0;
  }
}

#else

inline bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
inline bool ends_text(char c) { return c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' '; }

inline char* after_space(char* p) {
  while (is_space(*p)) ++p;
  return p;
}

inline char* after_blanks(char* p) {
  while (*p == ' ') ++p;
  return p;
}

inline char* after_digits(char* p) {
  while (is_digit(*p)) ++p;
  return p;
}

inline char* end_of_plain_text(char* p, bool& high) {
  for (; !ends_text(*p); ++p) high |= static_cast<unsigned char>(*p) >= 0x80;
  return p;
}

#endif

// The end of the digits at `p`, maybe with a sign before and a point between them; null: something else
// stands there.
inline char* end_of_mantissa(char* p) {
  if (*p == '-') ++p;
  char* end = after_digits(p);
  if (end == p || (*p == '0' && end > p + 1)) return nullptr;
  if (*end != '.') return end;
  char* const fraction = end + 1;
  end = after_digits(fraction);
  return end == fraction ? nullptr : end;
}

}  // namespace msprobe::io

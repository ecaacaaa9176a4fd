// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/table/csv_text.h"

#include <algorithm>
#include <charconv>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace msprobe::io::csv {

namespace {

constexpr bool is_special(char c) { return c == ',' || c == '"' || c == '\r' || c == '\n'; }

#ifdef __SSE2__

// Whether one of the sixteen characters is special.
bool has_special(__m128i text) {
  const auto is = [text](char c) { return _mm_cmpeq_epi8(text, _mm_set1_epi8(c)); };
  const __m128i special = _mm_or_si128(_mm_or_si128(is(','), is('"')), _mm_or_si128(is('\r'), is('\n')));
  return _mm_movemask_epi8(special) != 0;
}

// Looks at all characters, the last ones maybe twice: most cells have nothing special.
bool needs_quotes(std::string_view cell) {
  const char* const text = cell.data();
  const char* const end = text + cell.size();
  const auto eight = [](const char* p) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)); };
  const auto sixteen = [](const char* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); };
  if (cell.size() < 8) return std::any_of(text, end, is_special);
  if (cell.size() < 16) return has_special(_mm_unpacklo_epi64(eight(text), eight(end - 8)));
  bool found = has_special(sixteen(end - 16));
  for (const char* p = text; p + 16 < end; p += 16) found |= has_special(sixteen(p));
  return found;
}

#else

bool needs_quotes(std::string_view cell) { return std::any_of(cell.begin(), cell.end(), is_special); }

#endif

void append_quoted(std::string& text, std::string_view cell) {
  if (!needs_quotes(cell)) {
    text += cell;
    return;
  }
  text += '"';
  for (std::size_t quote = cell.find('"'); quote != cell.npos; quote = cell.find('"')) {
    text += cell.substr(0, quote + 1);
    text += '"';
    cell.remove_prefix(quote + 1);
  }
  text += cell;
  text += '"';
}

constexpr char kGuard = '\'';

constexpr bool begins_formula(char c) {
  return c == '=' || c == '+' || c == '-' || c == '@' || c == '\t' || c == '\r';
}

// "-1.5e+300", "-0.5%", "-inf\t": what a table shows as a number. "=0" is the name of a column in gradient
// tables, and as harmless.
bool is_number(std::string_view cell) {
  if (cell.ends_with('\t')) cell.remove_suffix(1);
  if (cell.empty()) return false;
  if (cell.front() == '=' || cell.front() == '+' || cell.front() == '-') cell.remove_prefix(1);
  if (cell.ends_with('%')) cell.remove_suffix(1);
  if (cell.empty() || cell.front() == '-') return false;
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  return error != std::errc::invalid_argument && end == cell.data() + cell.size();
}

bool needs_guard(std::string_view cell) {
  const std::size_t first = cell.find_first_not_of(kGuard);
  return first != cell.npos && begins_formula(cell[first]) && (first > 0 || !is_number(cell));
}

}  // namespace

std::string_view without_guard(std::string_view cell) noexcept {
  if (cell.empty() || cell.front() != kGuard) return cell;
  const std::size_t first = cell.find_first_not_of(kGuard);
  if (first != cell.npos && begins_formula(cell[first])) cell.remove_prefix(1);
  return cell;
}

void append_cell(std::string& text, std::string_view cell) {
  if (!cell.empty() && (cell.front() == kGuard || begins_formula(cell.front())) && needs_guard(cell)) {
    std::string guarded(1, kGuard);
    guarded += cell;
    return append_quoted(text, guarded);
  }
  append_quoted(text, cell);
}

}  // namespace msprobe::io::csv

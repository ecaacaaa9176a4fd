// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/json_form.h"

#include <cstring>

#include "io/json_bytes.h"

namespace msprobe::io {
namespace {

constexpr std::ptrdiff_t kLongestNumber = 32;
constexpr std::ptrdiff_t kMostExponentDigits = 2;  // with the above: below the largest double
constexpr std::ptrdiff_t kLongestText = 4096;

// Of NaN or Infinity; null: something else stands there.
char* end_of_word(char* begin) {
  for (const std::string_view word : {std::string_view("NaN"), std::string_view("Infinity")}) {
    static_assert(sizeof("-Infinity") <= kJsonZeros);
    if (std::string_view(begin, word.size()) == word) return begin + word.size();
  }
  return nullptr;
}

char* end_of_number(char* begin) {
  char* const unsigned_begin = *begin == '-' ? begin + 1 : begin;
  if (*unsigned_begin == 'N' || *unsigned_begin == 'I') return end_of_word(unsigned_begin);
  char* end = end_of_mantissa(begin);
  if (end != nullptr && (*end == 'e' || *end == 'E')) {
    char* digits = end + 1;
    if (*digits == '+' || *digits == '-') ++digits;
    end = after_digits(digits);
    if (end == digits || end > digits + kMostExponentDigits) return nullptr;
  }
  return end != nullptr && end <= begin + kLongestNumber ? end : nullptr;
}

char* end_of_text(char* begin) {
  bool high = false;
  char* const end = end_of_plain_text(begin, high);
  return *end == '"' && !high && end <= begin + kLongestText ? end : nullptr;
}

}  // namespace

char* JsonPiece::match(char* begin, const char* end, std::string_view& value) const {
  if (static_cast<std::size_t>(end - begin) < bytes_.size()) return nullptr;
  if (std::memcmp(begin, bytes_.data(), bytes_.size()) != 0) return nullptr;
  char* const after = begin + bytes_.size();
  if (hole_ == Hole::kNone) return after;
  char* const end_of_hole = hole_ == Hole::kText ? end_of_text(after) : end_of_number(after);
  if (end_of_hole != nullptr) value = {after, end_of_hole};
  return end_of_hole;
}

std::vector<JsonPiece> pieces_of(std::string_view bytes, std::span<const JsonHole> holes) {
  std::vector<JsonPiece> pieces;
  std::size_t begin = 0;
  for (const JsonHole& hole : holes) {
    const bool is_text = bytes[hole.begin - 1] == '"';
    pieces.emplace_back(bytes.substr(begin, hole.begin - begin),
                        is_text ? JsonPiece::Hole::kText : JsonPiece::Hole::kNumber);
    begin = hole.end;
  }
  pieces.emplace_back(bytes.substr(begin), JsonPiece::Hole::kNone);
  return pieces;
}

}  // namespace msprobe::io

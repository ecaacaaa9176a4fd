// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "trace/json/json_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

#include "msprobe/table.h"

namespace msprobe::trace {
namespace {

constexpr std::uint32_t kReplacement = 0xfffd;

void append_escape(std::string& out, std::uint32_t unit) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += kDigits[(unit >> shift) & 15];
}

// Decodes one character of `text` at `position`; a byte that does not belong to UTF-8 (RFC 3629: no long
// forms, no surrogates, nothing above U+10FFFF) becomes U+FFFD.
std::uint32_t next_character(std::string_view text, std::size_t& position) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(position);
  const unsigned more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
  const auto invalid = [&] {
    ++position;
    return kReplacement;
  };
  if (first < 0xc2 || first > 0xf4 || text.size() - position <= more) return invalid();
  std::uint32_t character = first & (0x3fU >> more);
  for (unsigned i = 1; i <= more; ++i) {
    const unsigned char next = byte(position + i);
    if ((next & 0xc0U) != 0x80) return invalid();
    character = character << 6 | (next & 0x3fU);
  }
  constexpr std::array<std::uint32_t, 4> kLeast{0, 0x80, 0x800, 0x10000};
  if (character < kLeast[more] || character > 0x10ffff || (character >= 0xd800 && character < 0xe000)) {
    return invalid();
  }
  position += more + 1;
  return character;
}

void append_character(std::string& out, std::uint32_t character) {
  constexpr std::string_view kShort = "\"\\\b\f\n\r\t";
  constexpr std::string_view kLetters = "\"\\bfnrt";
  const std::size_t at =
      character < 0x80 ? kShort.find(static_cast<char>(character)) : std::string_view::npos;
  if (at != std::string_view::npos) {
    out += '\\';
    out += kLetters[at];
  } else if (character >= 0x10000) {
    append_escape(out, 0xd800 + ((character - 0x10000) >> 10));
    append_escape(out, 0xdc00 + ((character - 0x10000) & 0x3ff));
  } else {
    append_escape(out, character);
  }
}

bool stands_for_itself(char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; }

// Eight characters at once: call stacks are long.
bool all_stand_for_themselves(const char* eight) {
  constexpr std::uint64_t kOnes = 0x0101010101010101;
  constexpr std::uint64_t kHighBits = 0x80 * kOnes;
  std::uint64_t word = 0;
  std::memcpy(&word, eight, sizeof word);
  // Without high bits in `word`, one of x is set where a byte is zero.
  const auto has = [&](unsigned char c) {
    const std::uint64_t x = word ^ (c * kOnes);
    return (x - kOnes) & ~x;
  };
  const std::uint64_t below_space = (word - ' ' * kOnes) & ~word;
  return ((word | below_space | has('"') | has('\\') | has(0x7f)) & kHighBits) == 0;
}

template <typename T>
void append_number(std::string& out, T number) {
  std::array<char, 24> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number).ptr;
  out.append(buffer.data(), end);
}

}  // namespace

// Not inlined: GCC 12 would warn of reads behind short constants, which do not happen.
[[gnu::noinline]] void append_json_string(std::string& out, std::string_view utf8) {
  out += '"';
  for (std::size_t i = 0; i < utf8.size();) {
    const std::size_t begin = i;
    while (i + 8 <= utf8.size() && all_stand_for_themselves(utf8.data() + i)) i += 8;
    while (i < utf8.size() && stands_for_itself(utf8[i])) ++i;
    out.append(utf8, begin, i - begin);
    if (i == utf8.size()) break;
    if (const auto code = static_cast<unsigned char>(utf8[i]); code < 0x80) {
      append_character(out, code);
      ++i;
    } else {
      append_character(out, next_character(utf8, i));
    }
  }
  out += '"';
}

void append_json_real(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "NaN";
  } else if (std::isinf(value)) {
    out += value < 0 ? "-Infinity" : "Infinity";
  } else {
    io::append_double(out, value);
  }
}

void JsonText::key(std::string_view name) {
  before_value();
  append_json_string(out_, name);
  out_ += ": ";
  after_key_ = true;
}

void JsonText::integer(std::int64_t number) {
  before_value();
  append_number(out_, number);
}

void JsonText::unsigned_integer(std::uint64_t number) {
  before_value();
  append_number(out_, number);
}

void JsonText::real(double number) {
  before_value();
  append_json_real(out_, number);
}

void JsonText::text(std::string_view text) {
  before_value();
  append_json_string(out_, text);
}

}  // namespace msprobe::trace

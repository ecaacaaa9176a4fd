// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "trace/json_text.h"

#include <array>
#include <charconv>
#include <cmath>

#include "msprobe/table.h"

namespace msprobe::trace {
namespace {

void append_escape(std::string& out, std::uint32_t unit) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += kDigits[(unit >> shift) & 15];
}

// Decodes one character of `text` at `position`; bytes that are not UTF-8 become U+FFFD.
std::uint32_t next_character(std::string_view text, std::size_t& position) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(position);
  const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : -1;
  if (more < 0 || position + static_cast<std::size_t>(more) >= text.size()) return ++position, 0xfffd;
  std::uint32_t character = first & (0x3fU >> more);
  for (int i = 1; i <= more; ++i) {
    const unsigned char next = byte(position + static_cast<std::size_t>(i));
    if ((next & 0xc0U) != 0x80) return ++position, 0xfffd;
    character = character << 6 | (next & 0x3fU);
  }
  position += static_cast<std::size_t>(more) + 1;
  return character;
}

template <typename T>
void append_number(std::string& out, T number) {
  std::array<char, 24> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number).ptr;
  out.append(buffer.data(), end);
}

}  // namespace

void append_json_string(std::string& out, std::string_view utf8) {
  out += '"';
  for (std::size_t i = 0; i < utf8.size();) {
    const char c = utf8[i];
    const auto code = static_cast<unsigned char>(c);
    if (code >= 0x20 && code < 0x7f) {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
      ++i;
    } else if (code < 0x80) {
      constexpr std::string_view kShort = "\b\f\n\r\t";
      constexpr std::string_view kLetters = "bfnrt";
      if (const std::size_t at = kShort.find(c); at != std::string_view::npos) {
        out += '\\';
        out += kLetters[at];
      } else if (code == 0x7f) {
        out += c;
      } else {
        append_escape(out, code);
      }
      ++i;
    } else if (const std::uint32_t character = next_character(utf8, i); character >= 0x10000) {
      append_escape(out, 0xd800 + ((character - 0x10000) >> 10));
      append_escape(out, 0xdc00 + ((character - 0x10000) & 0x3ff));
    } else {
      append_escape(out, character);
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
    out += io::format_double(value);
  }
}

void JsonText::before_value() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (depth_ == 0) return;
  if (!after_bracket_) out_ += ',';
  after_bracket_ = false;
  new_line();
}

void JsonText::begin(char bracket) {
  before_value();
  out_ += bracket;
  ++level_;
  ++depth_;
  after_bracket_ = true;
}

void JsonText::end(char bracket) {
  --level_;
  --depth_;
  if (!after_bracket_) new_line();
  after_bracket_ = false;
  out_ += bracket;
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

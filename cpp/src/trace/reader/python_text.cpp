// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "trace/reader/python_text.h"

namespace msprobe::trace {

void append_python_repr(std::string& out, std::string_view utf8) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const bool single = utf8.find('\'') == std::string_view::npos;
  const char quote = single || utf8.find('"') != std::string_view::npos ? '\'' : '"';
  out += quote;
  for (const char c : utf8) {
    const auto code = static_cast<unsigned char>(c);
    if (c == quote || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (code < 0x20 || code == 0x7f) {
      out += "\\x";
      out += kDigits[code >> 4];
      out += kDigits[code & 15];
    } else {
      out += c;
    }
  }
  out += quote;
}

}  // namespace msprobe::trace

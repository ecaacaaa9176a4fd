// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/csv_text.h"

#include <array>

namespace msprobe::io::csv {

namespace {

constexpr std::array<bool, 256> kNeedQuotes = [] {
  std::array<bool, 256> table{};
  for (const unsigned char c : {',', '"', '\r', '\n'}) table[c] = true;
  return table;
}();

// Looks at all characters, whatever the first ones are: nothing waits for a jump.
bool needs_quotes(std::string_view cell) {
  bool found = false;
  for (const char c : cell) found |= kNeedQuotes[static_cast<unsigned char>(c)];
  return found;
}

}  // namespace

void append_cell(std::string& text, std::string_view cell) {
  if (!needs_quotes(cell)) {
    text += cell;
    return;
  }
  text += '"';
  for (const char c : cell) {
    if (c == '"') text += '"';
    text += c;
  }
  text += '"';
}

}  // namespace msprobe::io::csv

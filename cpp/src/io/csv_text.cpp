// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/csv_text.h"

namespace msprobe::io::csv {

namespace {

// Looks at all characters, whatever the first ones are: so the compiler can look at many at once.
bool needs_quotes(std::string_view cell) {
  bool found = false;
  for (const char c : cell) found |= c == ',' || c == '"' || c == '\r' || c == '\n';
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

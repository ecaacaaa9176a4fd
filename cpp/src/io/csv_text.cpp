// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/csv_text.h"

namespace msprobe::io::csv {

void append_cell(std::string& text, std::string_view cell) {
  if (cell.find_first_of(",\"\r\n") == std::string_view::npos) {
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

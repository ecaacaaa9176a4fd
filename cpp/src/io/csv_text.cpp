// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/csv_text.h"

#include <algorithm>

namespace msprobe::io::csv {

void append_cell(std::string& text, std::string_view cell) {
  const auto is_special = [](char c) { return c == ',' || c == '"' || c == '\r' || c == '\n'; };
  if (std::none_of(cell.begin(), cell.end(), is_special)) {
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

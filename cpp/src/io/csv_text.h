// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace msprobe::io::csv {

inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
inline constexpr std::string_view kLineEnd = "\r\n";
/// The cell of a row that has only an empty one, or the row would be an empty line, which readers skip.
inline constexpr std::string_view kLoneEmptyCell = "\"\"";

/// Appends a cell, in quotes where it needs them.
void append_cell(std::string& text, std::string_view cell);

}  // namespace msprobe::io::csv

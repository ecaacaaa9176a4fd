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

/// Appends a cell, in quotes where it needs them. Text that a spreadsheet program would take for a formula
/// (it begins with `= + - @`, a tab or a carriage return) gets a `'` in front, which such programs take for
/// "this is text"; numbers do not, nor does `=` before one, the name of a column. So does what begins with
/// `'` before one of these, so that reading takes one off.
void append_cell(std::string& text, std::string_view cell);

/// The text that append_cell() was given, without its quotes.
std::string_view without_guard(std::string_view cell) noexcept;

}  // namespace msprobe::io::csv

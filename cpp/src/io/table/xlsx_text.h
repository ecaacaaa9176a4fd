// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// The parts of an xlsx file as text: ECMA-376, part 1 (SpreadsheetML) and part 2 (packages).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/sheet.h"

namespace msprobe::io::xlsx {

/// The most UTF-16 units in a cell; of the characters in a sheet's name.
inline constexpr std::size_t kLongestText = 32767;
inline constexpr std::size_t kLongestSheetName = 31;

inline constexpr std::string_view kSheetBegin =
    R"(<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>)";
inline constexpr std::string_view kSheetEnd = "</sheetData></worksheet>";

/// Appends the content of a text element. What XML cannot hold becomes `_xHHHH_`, as Excel writes it; bytes
/// that are not UTF-8 become `\xNN`; text that is too long for a cell is cut.
void append_text(std::string& xml, std::string_view text);

/// Appends a cell: `reference` is its place ("B7"), `style` the number of a fill.
void append_cell(std::string& xml, std::string_view reference, const Cell& cell, RowFill fill);

/// "A", "B", ... "XFD".
std::string column_letters(std::size_t index);

struct Part {
  std::string path;  // in the package
  std::string text;
};
/// Everything but the sheets themselves, which are the parts sheet_path(0), ...
std::string sheet_path(std::size_t index);
/// `shown`: the sheet that is seen first.
std::vector<Part> package_parts(std::span<const std::string> sheet_names, std::size_t shown = 0);

/// A sheet of one wide column of text.
std::string cover_sheet(std::span<const std::string> lines);

}  // namespace msprobe::io::xlsx

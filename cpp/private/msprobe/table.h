// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/export.h"

namespace msprobe::io {

/// The shortest decimal that reads back as the same double, in the form of Python's repr(): "0.1", "1.0",
/// "1e-05", "1e+16", "nan", "inf", "-inf".
MSPROBE_API std::string format_double(double value);
/// Appends the same text to `out`.
MSPROBE_API void append_double(std::string& out, double value);

using Row = std::vector<std::string>;

/// A comma-separated table as Python's csv module writes it by default: CRLF line ends, a cell is quoted when
/// it holds a comma, a quote or a line break; with a UTF-8 byte order mark at the start.
class MSPROBE_API CsvWriter {
 public:
  CsvWriter();
  void add(const Row& row);
  const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
};

struct Table {
  Row header;
  std::vector<Row> rows;

  /// Index of the column with this exact name, or -1.
  MSPROBE_API int column(std::string_view name) const noexcept;
};

/// Reads a whole csv (with or without byte order mark, LF or CRLF). Every row must have as many cells as the
/// header; empty lines are skipped. Cells stay text: a parameter called "0.10" or "nan" keeps its name.
/// Throws IoError, and FormatError with the line for an unclosed quote, a row of another width, an empty
/// file, a NUL byte, bytes that are not UTF-8, or a file above 1 GiB.
MSPROBE_API Table read_csv(const std::filesystem::path& path);
/// Its two halves: the text of a csv, and what stands in it; `path` is what messages name.
MSPROBE_API std::string read_csv_text(const std::filesystem::path& path);
MSPROBE_API Table parse_csv(std::string_view text, const std::string& path);

}  // namespace msprobe::io

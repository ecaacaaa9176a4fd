// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "msprobe/export.h"

namespace msprobe::io {

/// A cell: nothing, a number, text, or a Boolean, which a csv has as the text True or False. Text is UTF-8
/// and borrowed for the call. Bytes that are not UTF-8 are written as `\xNN`, as Python's "backslashreplace"
/// does, so that no name makes a result unreadable.
using Cell = std::variant<std::monostate, double, std::int64_t, std::string_view, bool>;

/// Colour of a whole row; csv has none. In an xlsx they are the ARGB values of mindstudio-probe, FFFF0000
/// and 00FFFF00; spreadsheet programs do not look at the first two digits.
enum class RowFill : std::uint8_t { kNone, kRed, kYellow };

struct SheetOptions {
  /// xlsx only: threads that compress; 0 = all cores. The file does not depend on it.
  unsigned threads = 1;
  /// xlsx only: the name of one more sheet, of text alone. It is the last one, so that programs that take the
  /// first sheet find the table, but what a spreadsheet program shows when it opens the file. It says that
  /// there is nothing yet until replace_cover() is called. Empty: there is none.
  std::string cover{};
};

/// Writes a table row by row, as csv or xlsx after the ending of the path. The file is complete or absent: it
/// has its name once commit() has returned; without commit() the destructor leaves nothing. Memory does not
/// grow with the rows.
///
/// csv: as CsvWriter of table.h, one sheet, whose name appears nowhere.
/// xlsx: any number of sheets. A sheet that outgrows 1048576 rows, or 4 GiB of XML, goes on in another: all
/// its parts are called `{name}_part_{i}` from 0 on, each begins with the header. Text above 32767 UTF-16
/// units, the limit of a cell, is cut and ends in kCutMark.
///
/// Numbers are written as Python's repr() does and read back as the same bits. No clock: equal calls give
/// equal bytes. Not thread-safe.
///
/// Every call throws InvalidArgument for what cannot be written, and then has done nothing; and IoError that
/// names the path, after which every call throws InvalidArgument and the file is gone.
class MSPROBE_API SheetWriter {
 public:
  static constexpr std::string_view kCutMark = " [...cut]";

  /// Throws InvalidArgument for another ending than .csv or .xlsx.
  explicit SheetWriter(std::filesystem::path path, const SheetOptions& options = {});
  ~SheetWriter();
  SheetWriter(SheetWriter&&) noexcept;
  SheetWriter& operator=(SheetWriter&&) noexcept;

  /// Begins the next sheet with its header. `name` follows Excel's rules: 1 to 31 characters, none of
  /// `[]:*?/\`, no `'` at an end, and not used before in another spelling of case. 1 to 16384 columns.
  void begin_sheet(std::string_view name, std::span<const std::string_view> columns);

  /// `cells` must be as many as the columns; NaN and Inf are InvalidArgument: the caller says which text
  /// stands for them.
  void add_row(std::span<const Cell> cells, RowFill fill = RowFill::kNone);

  /// csv only: rows that append_csv_row() made, in whatever thread; that they have the right columns is up to
  /// the caller.
  void add_csv_rows(std::string_view rows);

  /// At least one sheet must have begun. Nothing can follow.
  void commit();

 private:
  struct State;
  State& state() const;
  std::unique_ptr<State> state_;
};

/// Replaces the text of the cover of an xlsx that SheetWriter wrote: one cell below the other. The file is
/// copied, and the copy takes its place when it is complete (AtomicFile), so that a table that was written is
/// never half there. Throws IoError; InvalidArgument for a file without cover, or above 4 GiB. After either
/// the file is as it was.
MSPROBE_API void replace_cover(const std::filesystem::path& path, std::span<const std::string> lines);

/// Appends a row as SheetWriter::add_row() writes it into a csv, with guarded formulas. NaN and Inf must
/// not occur. Thread-safe.
MSPROBE_API void append_csv_row(std::string& rows, std::span<const Cell> cells);

}  // namespace msprobe::io

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "msprobe/file.h"
#include "msprobe/sheet.h"

namespace msprobe::io {

/// What SheetWriter hands checked sheets and rows to: one class for each kind of file. The file outlives it.
class SheetFormat {
 public:
  SheetFormat() = default;
  virtual ~SheetFormat() = default;
  SheetFormat(const SheetFormat&) = delete;
  SheetFormat& operator=(const SheetFormat&) = delete;

  virtual void begin_sheet(std::string_view name, std::span<const std::string_view> columns) = 0;
  virtual void add_row(std::span<const Cell> cells, RowFill fill) = 0;
  /// Rows as text, of a csv. Called for no other.
  virtual void add_text(std::string_view /*rows*/) {}
  /// Writes what is left; the caller commits the file.
  virtual void finish() = 0;
};

/// Where a sheet of an xlsx goes on in another one. Tests lower them.
struct XlsxLimits {
  std::uint32_t rows = 1048576;
  // Sizes that need no 64-bit records in a zip, which not every program reads.
  std::uint64_t bytes = 0xFFF00000;
};

std::unique_ptr<SheetFormat> make_csv_format(AtomicFile& file);
std::unique_ptr<SheetFormat> make_xlsx_format(AtomicFile& file, const SheetOptions& options,
                                              const XlsxLimits& limits = {});

}  // namespace msprobe::io

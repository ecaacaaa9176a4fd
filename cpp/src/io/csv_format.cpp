// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include "io/csv_text.h"
#include "io/sheet_format.h"
#include "io/utf8.h"
#include "msprobe/table.h"

namespace msprobe::io {
namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 20;
constexpr std::string_view kFormulaStarts = "=+-@\t\r";

class CsvFormat final : public SheetFormat {
 public:
  CsvFormat(AtomicFile& file, bool guard_formulas)
      : file_(file), guard_formulas_(guard_formulas), text_(csv::kByteOrderMark) {}

  void begin_sheet(std::string_view /*name*/, std::span<const std::string_view> columns) override {
    if (columns.size() == 1 && columns[0].empty()) text_ += csv::kLoneEmptyCell;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (i > 0) text_ += ',';
      append_text(columns[i]);
    }
    text_ += csv::kLineEnd;
  }

  void add_row(std::span<const Cell> cells, RowFill /*fill*/) override {
    const std::size_t begin = text_.size();
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (i > 0) text_ += ',';
      append(cells[i]);
    }
    if (text_.size() == begin) text_ += csv::kLoneEmptyCell;
    text_ += csv::kLineEnd;
    if (text_.size() >= kBuffer) flush();
  }

  void finish() override { flush(); }

 private:
  void append(const Cell& cell) {
    if (const auto* text = std::get_if<std::string_view>(&cell)) {
      append_text(*text);
    } else if (const auto* number = std::get_if<double>(&cell)) {
      append_double(text_, *number);
    } else if (const auto* integer = std::get_if<std::int64_t>(&cell)) {
      std::array<char, 24> digits{};
      text_.append(digits.data(), std::to_chars(digits.begin(), digits.end(), *integer).ptr);
    }
  }

  void append_text(std::string_view text) {
    const bool guarded =
        guard_formulas_ && !text.empty() && kFormulaStarts.find(text[0]) != std::string_view::npos;
    if (!guarded && is_ascii(text)) return csv::append_cell(text_, text);
    csv::append_cell(text_, (guarded ? "'" : "") + with_escaped_bytes(text));
  }

  void flush() {
    file_.write(text_);
    text_.clear();
  }

  AtomicFile& file_;
  bool guard_formulas_;
  std::string text_;
};

}  // namespace

std::unique_ptr<SheetFormat> make_csv_format(AtomicFile& file, const SheetOptions& options) {
  return std::make_unique<CsvFormat>(file, options.guard_formulas);
}

}  // namespace msprobe::io

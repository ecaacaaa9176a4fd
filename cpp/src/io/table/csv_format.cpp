// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <string>
#include <vector>

#include "io/table/csv_text.h"
#include "io/table/sheet_format.h"
#include "io/utf8.h"
#include "msprobe/table.h"

namespace msprobe::io {
namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 20;

void append_text_cell(std::string& row, std::string_view text) {
  if (is_ascii(text)) return csv::append_cell(row, text);
  csv::append_cell(row, with_escaped_bytes(text));
}

// Where the numbers of a row were written last. Rows that compare two runs have most of them twice, and to
// find the shortest digits of one takes long.
class KnownNumbers {
 public:
  void append(std::string& rows, double number) {
    const auto bits = std::bit_cast<std::uint64_t>(number);
    Known& known = known_[(bits * 0x9e3779b97f4a7c15) >> 61];
    if (known.length > 0 && known.bits == bits) {
      rows.append(rows, known.begin, known.length);
      return;
    }
    known = {.bits = bits, .begin = rows.size()};
    append_double(rows, number);
    known.length = rows.size() - known.begin;
  }

 private:
  struct Known {
    std::uint64_t bits = 0;
    std::size_t begin = 0;
    std::size_t length = 0;  // 0: nothing is known
  };
  std::array<Known, 8> known_;
};

void append(std::string& row, const Cell& cell, KnownNumbers& numbers) {
  if (const auto* text = std::get_if<std::string_view>(&cell)) {
    append_text_cell(row, *text);
  } else if (const auto* number = std::get_if<double>(&cell)) {
    numbers.append(row, *number);
  } else if (const auto* integer = std::get_if<std::int64_t>(&cell)) {
    std::array<char, 24> digits{};
    row.append(digits.data(), std::to_chars(digits.begin(), digits.end(), *integer).ptr);
  } else if (const auto* boolean = std::get_if<bool>(&cell)) {
    row += *boolean ? "True" : "False";
  }
}

void append_row(std::string& rows, std::span<const Cell> cells) {
  const std::size_t begin = rows.size();
  KnownNumbers numbers;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) rows += ',';
    append(rows, cells[i], numbers);
  }
  if (rows.size() == begin) rows += csv::kLoneEmptyCell;
  rows += csv::kLineEnd;
}

class CsvFormat final : public SheetFormat {
 public:
  explicit CsvFormat(AtomicFile& file) : file_(file), text_(csv::kByteOrderMark) {}

  void begin_sheet(std::string_view /*name*/, std::span<const std::string_view> columns) override {
    append_row(text_, std::vector<Cell>(columns.begin(), columns.end()));
  }

  void add_row(std::span<const Cell> cells, RowFill /*fill*/) override {
    append_row(text_, cells);
    if (text_.size() >= kBuffer) flush();
  }

  void add_text(std::string_view rows) override {
    flush();
    file_.write(rows);
  }

  void finish() override { flush(); }

 private:
  void flush() {
    file_.write(text_);
    text_.clear();
  }

  AtomicFile& file_;
  std::string text_;
};

}  // namespace

void append_csv_row(std::string& rows, std::span<const Cell> cells) { append_row(rows, cells); }

std::unique_ptr<SheetFormat> make_csv_format(AtomicFile& file) { return std::make_unique<CsvFormat>(file); }

}  // namespace msprobe::io

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

#include "io/table/csv_text.h"
#include "io/utf8.h"
#include "msprobe/error.h"
#include "msprobe/file.h"

namespace msprobe::io {
namespace {

// The "e" of "d.ddde+XX" or "d.ddde-XXX", which ends at `end`.
char* exponent_of(char* end) { return end[-4] == 'e' ? end - 4 : end - 5; }

int exponent_at(const char* e, const char* end) {
  int value = 0;
  for (const char* p = e + 2; p < end; ++p) value = value * 10 + (*p - '0');
  return e[1] == '-' ? -value : value;
}

constexpr std::uint64_t kLargestCsv = std::uint64_t{1} << 30;

// Reads cell by cell and remembers the line for messages.
class CsvParser {
 public:
  CsvParser(std::string_view text, std::string path) : text_(text), path_(std::move(path)) {}

  // False at the end of the text. Empty lines are skipped, as Python's csv module and pandas do.
  bool next_row(Row& row) {
    row.clear();
    while (position_ < text_.size() && skip_line_end()) continue;
    if (position_ == text_.size()) return false;
    row_line_ = line_;
    for (;;) {
      row.push_back(next_cell());
      if (position_ == text_.size() || skip_line_end()) return true;
      ++position_;  // the comma
    }
  }

  // The line the last row started at.
  std::size_t row_line() const noexcept { return row_line_; }

  [[noreturn]] void fail(std::size_t line, const std::string& problem) const {
    throw FormatError(path_, "line " + std::to_string(line), problem);
  }

 private:
  bool skip_line_end() noexcept {
    const std::size_t before = position_;
    if (position_ < text_.size() && text_[position_] == '\r') ++position_;
    if (position_ < text_.size() && text_[position_] == '\n') ++position_;
    if (position_ == before) return false;
    ++line_;
    return true;
  }

  std::string next_cell() {
    std::string cell;
    if (position_ < text_.size() && text_[position_] == '"') read_quoted(cell);
    // Also what follows a closing quote, as Python's reader does.
    while (position_ < text_.size() &&
           std::string_view(",\r\n").find(text_[position_]) == std::string_view::npos) {
      take_character(cell);
    }
    return cell;
  }

  void read_quoted(std::string& cell) {
    const std::size_t start = line_;
    ++position_;
    for (;;) {
      if (position_ == text_.size()) fail(start, "a quote is opened and never closed");
      const char c = text_[position_];
      if (c == '"') {
        ++position_;
        if (position_ == text_.size() || text_[position_] != '"') return;
      }
      if (c == '\n') ++line_;
      take_character(cell);
    }
  }

  void take_character(std::string& cell) {
    if (text_[position_] == '\0') fail(line_, "found a NUL byte, expected text");
    const std::size_t length = utf8_sequence(text_.substr(position_));
    if (length == 0) fail(line_, "found bytes that are not UTF-8");
    cell.append(text_, position_, length);
    position_ += length;
  }

  std::string_view text_;
  std::string path_;
  std::size_t position_ = 0;
  std::size_t line_ = 1;
  std::size_t row_line_ = 1;
};

}  // namespace

std::string format_double(double value) {
  std::string text;
  append_double(text, value);
  return text;
}

void append_double(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "nan";
    return;
  }
  if (std::isinf(value)) {
    out += value < 0 ? "-inf" : "inf";
    return;
  }
  if (value == 0) {  // the commonest difference
    out += std::signbit(value) ? "-0.0" : "0.0";
    return;
  }
  // Shortest digits and exponent, "d.ddde+XX"; then the layout of Python's repr(): fixed when -4 <= exponent
  // < 16.
  std::array<char, 64> buffer{};
  char* const text = buffer.data() + 8;  // room for what comes in front of the digits
  char* const end = std::to_chars(text, text + 32, value, std::chars_format::scientific).ptr;
  char* const e = exponent_of(end);
  const int exponent = exponent_at(e, end);
  if (exponent < -4 || exponent >= 16) {
    out.append(text, end);
    return;
  }

  char* first = text + (*text == '-' ? 1 : 0);
  if (first[1] == '.') first[1] = first[0], ++first;  // the digits stand without a gap
  char* last = e;
  if (exponent < 0) {
    const int zeros = -exponent;
    first -= zeros + 1;
    std::memcpy(first, "0.0000", static_cast<std::size_t>(zeros) + 1);
  } else if (const auto digits = e - first; digits <= exponent + 1) {
    last = std::fill_n(e, exponent + 1 - digits, '0');
    *last++ = '.';
    *last++ = '0';
  } else {
    --first;
    std::memmove(first, first + 1, static_cast<std::size_t>(exponent) + 1);
    first[exponent + 1] = '.';
  }
  if (value < 0) *--first = '-';
  out.append(first, last);
}

CsvWriter::CsvWriter() : text_(csv::kByteOrderMark) {}

void CsvWriter::add(const Row& row) {
  if (row.size() == 1 && row[0].empty()) text_ += csv::kLoneEmptyCell;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (i > 0) text_ += ',';
    csv::append_cell(text_, row[i]);
  }
  text_ += csv::kLineEnd;
}

int Table::column(std::string_view name) const noexcept {
  const auto found = std::find(header.begin(), header.end(), name);
  return found == header.end() ? -1 : static_cast<int>(found - header.begin());
}

std::string read_csv_text(const std::filesystem::path& path) {
  const InputFile file(path);
  if (file.size() > kLargestCsv) {
    throw FormatError(
        path.string(), "",
        "a csv file of at most 1 GiB was expected, found " + std::to_string(file.size()) + " bytes");
  }
  std::string text(file.size(), '\0');
  file.read(0, {reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
  return text;
}

Table read_csv(const std::filesystem::path& path) { return parse_csv(read_csv_text(path), path.string()); }

Table parse_csv(std::string_view text, const std::string& path) {
  if (text.starts_with(csv::kByteOrderMark)) text.remove_prefix(csv::kByteOrderMark.size());

  CsvParser parser(text, path);
  Table table;
  if (!parser.next_row(table.header)) parser.fail(1, "the file is empty, expected a header line");
  for (std::string& cell : table.header) cell = csv::without_guard(cell);
  for (Row row; parser.next_row(row);) {
    if (row.size() != table.header.size()) {
      parser.fail(parser.row_line(), "expected " + std::to_string(table.header.size()) +
                                         " cells as in the header, found " + std::to_string(row.size()));
    }
    for (std::string& cell : row) cell = csv::without_guard(cell);
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace msprobe::io

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/sheet.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "io/in_quotes.h"
#include "io/table/sheet_format.h"
#include "io/table/xlsx_text.h"
#include "io/utf8.h"
#include "msprobe/error.h"
#include "msprobe/table.h"

namespace msprobe::io {
namespace {

constexpr std::size_t kMostColumns = 16384;

bool path_is_csv(const std::filesystem::path& path) { return path.extension() == ".csv"; }

std::unique_ptr<SheetFormat> make_format(const std::filesystem::path& path, AtomicFile& file,
                                         const SheetOptions& options) {
  return path_is_csv(path) ? make_csv_format(file) : make_xlsx_format(file, options);
}

std::filesystem::path checked(std::filesystem::path path) {
  if (!path_is_csv(path) && path.extension() != ".xlsx") {
    throw InvalidArgument(path.string() + ": expected the name of a table to end in .csv or .xlsx");
  }
  return path;
}

// Upper and lower case of ASCII are one, as in Excel.
std::string folded(std::string_view name) {
  std::string result(name);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

// Empty when a spreadsheet can have a sheet of this name.
std::string problem_with_name(std::string_view name) {
  std::size_t units = 0;
  for (std::string_view rest = name; !rest.empty();) {
    const std::size_t length = utf8_sequence(rest);
    if (length == 0 || static_cast<std::uint8_t>(rest[0]) < ' ') return "found bytes that are no text";
    units += length == 4 ? 2 : 1;
    rest.remove_prefix(length);
  }
  if (units == 0 || units > xlsx::kLongestSheetName) {
    return "expected 1 to 31 characters, found " + std::to_string(units);
  }
  const std::size_t bad = name.find_first_of("[]:*?/\\");
  if (bad != std::string_view::npos) return "found the character " + std::string(1, name[bad]);
  if (name.front() == '\'' || name.back() == '\'') return "found an apostrophe at an end";
  return "";
}

// Calls `act`; after a failure the file is gone.
template <typename State, typename Act>
void act_or_discard(std::unique_ptr<State>& state, const Act& act) {
  try {
    act();
  } catch (...) {
    state.reset();
    throw;
  }
}

}  // namespace

struct SheetWriter::State {
  State(std::filesystem::path where, const SheetOptions& options)
      : path(checked(std::move(where))), file(path), format(make_format(path, file, options)) {
    if (options.cover.empty()) return;
    if (const std::string problem = problem_with_name(options.cover); !problem.empty()) {
      refuse("cover " + in_quotes(options.cover) + ": " + problem);
    }
    sheets.push_back(folded(options.cover));
  }

  [[noreturn]] void refuse(const std::string& problem) const {
    throw InvalidArgument(path.string() + ": " + problem);
  }

  void check(std::span<const Cell> cells) const {
    if (columns.empty()) refuse("a row was added before any sheet was begun");
    if (cells.size() != columns.size()) {
      refuse("sheet " + in_quotes(sheets.back()) + ": expected " + std::to_string(columns.size()) +
             " cells as in the header, found " + std::to_string(cells.size()));
    }
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const auto* number = std::get_if<double>(&cells[i]);
      if (number != nullptr && !std::isfinite(*number)) {
        refuse("column " + in_quotes(columns[i]) + ": expected a finite number, or text, found " +
               format_double(*number));
      }
    }
  }

  std::filesystem::path path;
  AtomicFile file;
  std::unique_ptr<SheetFormat> format;
  std::vector<std::string> sheets;   // all names so far, in lower case; first that of the cover
  std::vector<std::string> columns;  // of the sheet being written
};

SheetWriter::SheetWriter(std::filesystem::path path, const SheetOptions& options)
    : state_(std::make_unique<State>(std::move(path), options)) {}
SheetWriter::~SheetWriter() = default;
SheetWriter::SheetWriter(SheetWriter&&) noexcept = default;
SheetWriter& SheetWriter::operator=(SheetWriter&&) noexcept = default;

SheetWriter::State& SheetWriter::state() const {
  if (!state_) throw InvalidArgument("a table was written to after it was committed, or after it failed");
  return *state_;
}

void SheetWriter::begin_sheet(std::string_view name, std::span<const std::string_view> columns) {
  State& state = this->state();
  if (const std::string problem = problem_with_name(name); !problem.empty()) {
    state.refuse("sheet name " + in_quotes(name) + ": " + problem);
  }
  std::string lower = folded(name);
  if (std::find(state.sheets.begin(), state.sheets.end(), lower) != state.sheets.end()) {
    state.refuse("sheet name " + in_quotes(name) + ": found it twice");
  }
  if (columns.empty() || columns.size() > kMostColumns) {
    state.refuse("sheet " + in_quotes(name) + ": expected 1 to 16384 columns, found " +
                 std::to_string(columns.size()));
  }
  if (path_is_csv(state.path) && !state.columns.empty()) {
    state.refuse("a csv holds one sheet, found another, " + in_quotes(name) +
                 "; expected a table of several sheets to end in .xlsx");
  }
  act_or_discard(state_, [&] {
    state.format->begin_sheet(name, columns);
    state.sheets.push_back(std::move(lower));
    state.columns.assign(columns.begin(), columns.end());
  });
}

void SheetWriter::add_row(std::span<const Cell> cells, RowFill fill) {
  State& state = this->state();
  state.check(cells);
  act_or_discard(state_, [&] { state.format->add_row(cells, fill); });
}

void SheetWriter::add_csv_rows(std::string_view rows) {
  State& state = this->state();
  if (!path_is_csv(state.path)) state.refuse("rows as text were given for a table that is no csv");
  if (state.columns.empty()) state.refuse("rows were added before any sheet was begun");
  act_or_discard(state_, [&] { state.format->add_text(rows); });
}

void SheetWriter::commit() {
  State& state = this->state();
  if (state.columns.empty()) state.refuse("expected at least one sheet in a table");
  act_or_discard(state_, [&] {
    state.format->finish();
    state.file.commit();
  });
  state_.reset();
}

}  // namespace msprobe::io

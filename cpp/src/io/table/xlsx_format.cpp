// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "io/table/sheet_format.h"
#include "io/table/xlsx_text.h"
#include "io/utf8.h"
#include "io/zip/deflate_stream.h"
#include "io/zip/zip_writer.h"

namespace msprobe::io {
namespace {

// `name` as the `index`-th part of a sheet, within the length of a sheet's name.
std::string part_name(std::string_view name, std::size_t index) {
  const std::string ending = "_part_" + std::to_string(index);
  std::size_t characters = 0;
  std::size_t bytes = 0;
  while (bytes < name.size() && characters + ending.size() < xlsx::kLongestSheetName) {
    const std::size_t length = utf8_sequence(name.substr(bytes));
    characters += length == 4 ? 2 : 1;
    bytes += length;
  }
  return std::string(name.substr(0, bytes)) + ending;
}

class XlsxFormat final : public SheetFormat {
 public:
  XlsxFormat(AtomicFile& file, const SheetOptions& options, const XlsxLimits& limits)
      : file_(file),
        limits_(limits),
        cover_(options.cover),
        pool_(options.threads),
        sink_([this](std::string_view bytes) { file_.write(bytes); }),
        stream_(pool_, sink_) {}

  void begin_sheet(std::string_view name, std::span<const std::string_view> columns) override {
    end_sheet();
    name_ = name;
    header_.assign(columns.begin(), columns.end());
    for (std::size_t i = letters_.size(); i < columns.size(); ++i)
      letters_.push_back(xlsx::column_letters(i));
    part_ = 0;
    begin_part();
  }

  void add_row(std::span<const Cell> cells, RowFill fill) override {
    if (row_ == limits_.rows) next_part();
    format_row(cells, fill);
    if (bytes_ + xml_.size() > limits_.bytes && row_ > 1) {
      next_part();
      format_row(cells, fill);
    }
    put_row();
  }

  void finish() override {
    end_sheet();
    const std::size_t sheets = sheet_names_.size();
    if (!cover_.empty()) sheet_names_.push_back(cover_);
    const std::size_t shown = cover_.empty() ? 0 : sheets;
    for (const xlsx::Part& part : xlsx::package_parts(sheet_names_, shown)) add_part(part.path, part.text);
    if (!cover_.empty()) {
      const std::vector<std::string> nothing = {"There is no verdict yet."};
      add_part(xlsx::sheet_path(sheets), xlsx::cover_sheet(nothing));
    }
    std::string directory;
    zip_.finish(directory);
    file_.write(directory);
  }

 private:
  void begin_part() {
    begin_entry(xlsx::sheet_path(sheet_names_.size()));
    stream_.add(xlsx::kSheetBegin);
    row_ = 0;
    bytes_ = xlsx::kSheetBegin.size() + xlsx::kSheetEnd.size();
    format_row(std::vector<Cell>(header_.begin(), header_.end()), RowFill::kNone);
    put_row();
  }

  // Which name a sheet has is known when it ends: only then is clear whether it is one of several parts.
  void end_part(bool is_last) {
    stream_.add(xlsx::kSheetEnd);
    end_entry();
    sheet_names_.push_back(is_last && part_ == 0 ? name_ : part_name(name_, part_));
  }

  void next_part() {
    end_part(false);
    ++part_;
    begin_part();
  }

  void end_sheet() {
    if (!header_.empty()) end_part(true);
    header_.clear();
  }

  // Row `row_` as XML into `xml_`.
  void format_row(std::span<const Cell> cells, RowFill fill) {
    const std::string number = std::to_string(row_ + 1);
    xml_ = "<row r=\"" + number + "\">";
    for (std::size_t i = 0; i < cells.size(); ++i) {
      reference_ = letters_[i];
      reference_ += number;
      xlsx::append_cell(xml_, reference_, cells[i], fill);
    }
    xml_ += "</row>";
  }

  void put_row() {
    stream_.add(xml_);
    bytes_ += xml_.size();
    ++row_;
  }

  void add_part(std::string_view path, std::string_view text) {
    begin_entry(path);
    stream_.add(text);
    end_entry();
  }

  void begin_entry(std::string_view path) {
    std::string record;
    zip_.begin_deflated(path, record);
    file_.write(record);
  }

  void end_entry() {
    const DeflateStream::Totals totals = stream_.finish();
    std::string record;
    zip_.end_deflated(totals.crc, totals.stored_size, totals.size, record);
    file_.write(record);
  }

  AtomicFile& file_;
  XlsxLimits limits_;
  std::string cover_;  // its name; empty: there is none
  ThreadPool pool_;
  std::function<void(std::string_view)> sink_;
  DeflateStream stream_;
  ZipWriter zip_;
  std::vector<std::string> sheet_names_;  // of the sheets that are written
  std::vector<std::string> letters_;      // of the columns

  // The sheet that is being written; no header: none.
  std::string name_;
  std::vector<std::string> header_;
  std::size_t part_ = 0;
  std::uint32_t row_ = 0;    // in this part
  std::uint64_t bytes_ = 0;  // of XML in this part
  std::string xml_;          // these two are kept for their memory
  std::string reference_;
};

}  // namespace

std::unique_ptr<SheetFormat> make_xlsx_format(AtomicFile& file, const SheetOptions& options,
                                              const XlsxLimits& limits) {
  return std::make_unique<XlsxFormat>(file, options, limits);
}

}  // namespace msprobe::io

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

/// Files of SQLite, as its page "Database File Format" describes them, for many rows at once: whoever has
/// them in their order needs no search in a tree for each of them. SQLite itself makes the file, with its
/// tables and indices, and reads it.
namespace msprobe::io::sqlite {

inline constexpr std::size_t kPageSize = 4096;

/// Appends a number in the length that it needs.
void append_varint(std::string& out, std::uint64_t value);
/// Appends a number of 4 bytes, the highest first.
void append_page_number(std::string& out, std::uint32_t number);
std::uint32_t page_number_at(std::string_view bytes) noexcept;

/// The values of a row, or of a key.
class Record {
 public:
  void clear();
  Record& null();
  Record& integer(std::int64_t value);
  /// A whole number is kept as one, as in columns of whole numbers; NaN is null.
  Record& real(double value);
  Record& text(std::string_view text);
  std::size_t size() const noexcept;
  void append_to(std::string& out) const;

 private:
  std::size_t head() const noexcept;

  std::string types_, values_;
};

enum class PageKind : unsigned char { kInnerKeys = 0x02, kInnerRows = 0x05, kKeys = 0x0a, kRows = 0x0d };

/// A page of a tree: cells in their order.
class Page {
 public:
  explicit Page(PageKind kind);

  std::size_t count() const noexcept;
  bool fits(std::size_t bytes) const noexcept;
  void add(std::string_view cell);  // it fits
  std::string_view cell(std::size_t i) const noexcept;
  void pop();
  /// Of an inner page: the child after all cells.
  void set_last_child(std::uint32_t page);
  std::string_view bytes() const noexcept { return bytes_; }

 private:
  std::size_t header_size() const noexcept;
  std::size_t number_at(std::size_t at) const noexcept;
  void set_number(std::size_t at, std::size_t value) noexcept;
  std::size_t content() const noexcept;  // where the cells begin

  std::string bytes_;
};

/// Appends pages to a file that SQLite has closed. Throws IoError.
class PageFile {
 public:
  /// `shown`: what errors call the file.
  PageFile(const std::filesystem::path& file, std::filesystem::path shown);
  ~PageFile();
  PageFile(const PageFile&) = delete;
  PageFile& operator=(const PageFile&) = delete;

  /// The number that the next page gets.
  std::uint32_t next() const noexcept { return after(last_); }
  static std::uint32_t after(std::uint32_t number) noexcept;
  std::uint32_t add(std::string_view page);
  /// A page that was there from the start.
  void replace(std::uint32_t number, std::string_view page);
  /// Now SQLite may have the file again.
  void close();

 private:
  void put(std::string_view page);
  void flush();
  void write_at(std::uint64_t offset, std::string_view bytes);

  std::filesystem::path shown_;
  int descriptor_ = -1;
  std::uint32_t last_ = 0;
  std::string waiting_;  // pages up to last_ that are not written yet
};

}  // namespace msprobe::io::sqlite

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/sqlite_pages.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <limits>
#include <utility>

#include "msprobe/error.h"

namespace msprobe::io::sqlite {
namespace {

// Of this page SQLite locks bytes: nothing may be in it.
constexpr std::uint32_t kLockPage = (1u << 30) / kPageSize + 1;
constexpr std::size_t kAtOnce = std::size_t{1} << 20;

void append_big_endian(std::string& out, std::uint64_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(value >> (8 * i));
}

// The type of a whole number, and its bytes.
struct WholeType {
  unsigned char type;
  int bytes;
};

WholeType type_of(std::int64_t value) {
  if (value == 0 || value == 1) return {static_cast<unsigned char>(8 + value), 0};
  constexpr std::array<WholeType, 5> kTypes = {{{1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 6}}};
  for (const WholeType type : kTypes) {
    const std::int64_t limit = std::int64_t{1} << (8 * type.bytes - 1);
    if (value >= -limit && value < limit) return type;
  }
  return {6, 8};
}

}  // namespace

void append_varint(std::string& out, std::uint64_t value) {
  if (value < 0x80) {
    out += static_cast<char>(value);
    return;
  }
  std::array<char, 10> bytes{};
  std::size_t at = bytes.size();
  bytes[--at] = static_cast<char>(value & 0x7f);
  // Of nine bytes the last has eight bits, but so high no number is here.
  for (value >>= 7; value > 0; value >>= 7) bytes[--at] = static_cast<char>((value & 0x7f) | 0x80);
  out.append(bytes.data() + at, bytes.size() - at);
}

void append_page_number(std::string& out, std::uint32_t number) { append_big_endian(out, number, 4); }

std::uint32_t page_number_at(std::string_view bytes) noexcept {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i) number = number << 8 | static_cast<unsigned char>(bytes[i]);
  return number;
}

// ---- Record

void Record::clear() {
  types_.clear();
  values_.clear();
}

Record& Record::null() {
  types_ += '\0';
  return *this;
}

Record& Record::integer(std::int64_t value) {
  const WholeType type = type_of(value);
  types_ += static_cast<char>(type.type);
  append_big_endian(values_, static_cast<std::uint64_t>(value), type.bytes);
  return *this;
}

Record& Record::real(double value) {
  if (std::isnan(value)) return null();
  constexpr double kExact = std::int64_t{1} << 53;
  if (std::abs(value) < kExact && value == std::trunc(value)) {
    return integer(static_cast<std::int64_t>(value));
  }
  types_ += '\7';
  append_big_endian(values_, std::bit_cast<std::uint64_t>(value), 8);
  return *this;
}

Record& Record::text(std::string_view text) {
  append_varint(types_, 13 + 2 * std::uint64_t{text.size()});
  values_ += text;
  return *this;
}

// The length of the types counts itself, too: one byte, or two.
std::size_t Record::head() const noexcept { return types_.size() + (types_.size() < 0x7f ? 1 : 2); }

std::size_t Record::size() const noexcept { return head() + values_.size(); }

void Record::append_to(std::string& out) const {
  append_varint(out, head());
  out += types_;
  out += values_;
}

// ---- Page

Page::Page(PageKind kind) : bytes_(kPageSize, '\0') {
  bytes_[0] = static_cast<char>(kind);
  set_number(5, kPageSize);
}

std::size_t Page::header_size() const noexcept {
  const auto kind = static_cast<PageKind>(bytes_[0]);
  return kind == PageKind::kInnerKeys || kind == PageKind::kInnerRows ? 12 : 8;
}

std::size_t Page::number_at(std::size_t at) const noexcept {
  return std::size_t{static_cast<unsigned char>(bytes_[at])} << 8 |
         static_cast<unsigned char>(bytes_[at + 1]);
}

void Page::set_number(std::size_t at, std::size_t value) noexcept {
  bytes_[at] = static_cast<char>(value >> 8);
  bytes_[at + 1] = static_cast<char>(value);
}

std::size_t Page::count() const noexcept { return number_at(3); }

std::size_t Page::content() const noexcept { return number_at(5); }

bool Page::fits(std::size_t bytes) const noexcept {
  return header_size() + 2 * (count() + 1) + bytes <= content();
}

void Page::add(std::string_view cell) {
  const std::size_t begin = content() - cell.size();
  cell.copy(bytes_.data() + begin, cell.size());
  set_number(header_size() + 2 * count(), begin);
  set_number(5, begin);
  set_number(3, count() + 1);
}

std::string_view Page::cell(std::size_t i) const noexcept {
  const std::size_t place = header_size() + 2 * i;
  const std::size_t begin = number_at(place), end = i == 0 ? kPageSize : number_at(place - 2);
  return std::string_view(bytes_).substr(begin, end - begin);
}

void Page::pop() {
  set_number(5, content() + cell(count() - 1).size());
  set_number(3, count() - 1);
}

void Page::set_last_child(std::uint32_t page) {
  std::string number;
  append_page_number(number, page);
  bytes_.replace(8, number.size(), number);
}

// ---- PageFile

PageFile::PageFile(const std::filesystem::path& file, std::filesystem::path shown)
    : shown_(std::move(shown)), descriptor_(::open(file.c_str(), O_WRONLY | O_CLOEXEC)) {
  struct stat status{};
  if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) {
    throw IoError("cannot write", shown_.string(), errno);
  }
  last_ = static_cast<std::uint32_t>(static_cast<std::size_t>(status.st_size) / kPageSize);
  waiting_.reserve(kAtOnce);
}

PageFile::~PageFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::uint32_t PageFile::after(std::uint32_t number) noexcept {
  return number + (number + 1 == kLockPage ? 2 : 1);
}

std::uint32_t PageFile::add(std::string_view page) {
  if (after(last_) != last_ + 1) put(std::string(kPageSize, '\0'));
  put(page);
  return last_;
}

void PageFile::put(std::string_view page) {
  waiting_ += page;
  ++last_;
  if (waiting_.size() >= kAtOnce) flush();
}

void PageFile::flush() {
  write_at(std::uint64_t{last_} * kPageSize - waiting_.size(), waiting_);
  waiting_.clear();
}

void PageFile::replace(std::uint32_t number, std::string_view page) {
  write_at(std::uint64_t{number - 1} * kPageSize, page);
}

void PageFile::close() {
  flush();
  constexpr std::uint64_t kCountOfPages = 28;  // in the header of the file
  std::string count;
  append_page_number(count, last_);
  write_at(kCountOfPages, count);
  if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) {
    throw IoError("cannot write", shown_.string(), errno);
  }
}

void PageFile::write_at(std::uint64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0) {
      if (errno == EINTR) continue;
      throw IoError("cannot write", shown_.string(), errno);
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
}

}  // namespace msprobe::io::sqlite

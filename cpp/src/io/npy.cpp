// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// The .npy format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/layout.h"
#include "msprobe/error.h"
#include "msprobe/file.h"
#include "msprobe/tensor_file.h"

namespace msprobe::io {
namespace {

constexpr std::string_view kNpyMagic("\x93NUMPY", 6);
constexpr std::size_t kLongestHead = 64 << 10;

struct Descr {
  std::string_view text;
  DType dtype;
};

// What NumPy calls our dtypes. It has no bfloat16, fp8 and complex32.
constexpr std::array<Descr, 14> kDescrs{{
    {"<f8", DType::kFloat64},
    {"<f4", DType::kFloat32},
    {"<f2", DType::kFloat16},
    {"<i8", DType::kInt64},
    {"<i4", DType::kInt32},
    {"<i2", DType::kInt16},
    {"|i1", DType::kInt8},
    {"<u8", DType::kUInt64},
    {"<u4", DType::kUInt32},
    {"<u2", DType::kUInt16},
    {"|u1", DType::kUInt8},
    {"|b1", DType::kBool},
    {"<c8", DType::kComplex64},
    {"<c16", DType::kComplex128},
}};

// Parses the one dictionary NumPy writes: string keys, and a string, a bool and a tuple of integers as
// values.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, std::size_t offset, const std::string& path)
      : text_(text), offset_(offset), path_(path) {}

  NpyHeader parse() {
    NpyHeader header;
    bool descr = false;
    bool order = false;
    bool shape = false;
    expect('{');
    while (!accept('}')) {
      const std::size_t start = position_;
      const std::string_view key = read_string("a key in quotes");
      expect(':');
      if (key == "descr" && !descr) {
        header.dtype = read_dtype();
        descr = true;
      } else if (key == "fortran_order" && !order) {
        header.fortran_order = read_bool();
        order = true;
      } else if (key == "shape" && !shape) {
        header.shape = read_shape();
        shape = true;
      } else {
        position_ = start;
        fail("expected each of the keys \"descr\", \"fortran_order\" and \"shape\" once, found \"" +
             printable(key) + "\"");
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    if (position_ != text_.size()) fail("expected only spaces after the dictionary of the header");
    if (!descr || !order || !shape) {
      fail(std::string("the header has no key \"") +
           (!descr   ? "descr"
            : !order ? "fortran_order"
                     : "shape") +
           "\"");
    }
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw FormatError(path_, "byte " + std::to_string(offset_ + position_), problem);
  }
  [[noreturn]] void fail_key(std::string_view key, const std::string& problem) const {
    throw FormatError(path_, "\"" + std::string(key) + "\"", problem);
  }

  // At most a line of text for a message, whatever the file holds.
  static std::string printable(std::string_view text) {
    constexpr std::size_t kMost = 40;
    std::string result;
    for (const char c : text.substr(0, kMost)) result += c >= ' ' && c <= '~' ? c : '?';
    return text.size() > kMost ? result + "..." : result;
  }

  void skip_spaces() noexcept {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n')) ++position_;
  }
  bool accept(char c) noexcept {
    skip_spaces();
    if (position_ == text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("expected '") + c + "' in the header dictionary");
  }

  std::string_view read_string(const char* expectation) {
    skip_spaces();
    const char quote = position_ < text_.size() ? text_[position_] : '\0';
    if (quote != '\'' && quote != '"') fail(std::string("expected ") + expectation);
    const std::size_t end = text_.find(quote, position_ + 1);
    if (end == std::string_view::npos) fail("a quote is opened and never closed");
    const std::string_view result = text_.substr(position_ + 1, end - position_ - 1);
    position_ = end + 1;
    return result;
  }

  DType read_dtype() {
    skip_spaces();
    if (position_ < text_.size() && text_[position_] == '[') {
      fail_key("descr", "structured dtypes are not supported, expected a plain number type");
    }
    const std::string_view text = read_string("a dtype in quotes");
    const auto found =
        std::find_if(kDescrs.begin(), kDescrs.end(), [text](const Descr& d) { return d.text == text; });
    if (found != kDescrs.end()) return found->dtype;
    const std::string shown = "found \"" + printable(text) + "\"";
    if (text.find('O') != std::string_view::npos) {
      fail_key("descr",
               shown + ", an object dtype, which only Python code could read; expected a number type");
    }
    if (text.starts_with('>')) fail_key("descr", shown + ", big-endian data; expected little-endian");
    fail_key("descr", shown + ", expected a number type such as \"|b1\" or \"<f4\"");
  }

  bool read_bool() {
    skip_spaces();
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}}) {
      if (text_.substr(position_).starts_with(word)) {
        position_ += word.size();
        return value;
      }
    }
    fail_key("fortran_order", "expected True or False");
  }

  std::vector<std::int64_t> read_shape() {
    std::vector<std::int64_t> shape;
    if (!accept('(')) fail_key("shape", "expected a tuple of integers");
    while (!accept(')')) {
      if (shape.size() == Layout::kMaxRank) fail_key("shape", "expected at most 64 dimensions");
      shape.push_back(read_extent());
      if (accept(',')) continue;
      // A tuple of one needs its comma: "(3)" is a number.
      if (shape.size() == 1 || !accept(')')) fail_key("shape", "expected ',' or ')' after an integer");
      break;
    }
    return shape;
  }

  std::int64_t read_extent() {
    skip_spaces();
    std::int64_t extent = 0;
    const char* const first = text_.data() + position_;
    const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), extent);
    if (error == std::errc::result_out_of_range) fail_key("shape", "an extent does not fit into 63 bits");
    if (error != std::errc{})
      fail_key("shape", "expected an integer, found \"" + printable(text_.substr(position_, 8)) + "\"");
    if (extent < 0) fail_key("shape", "an extent must be 0 or more, found " + std::to_string(extent));
    position_ += static_cast<std::size_t>(end - first);
    return extent;
  }

  std::string_view text_;
  std::size_t offset_;
  const std::string& path_;
  std::size_t position_ = 0;
};

// Product of the extents, refusing what NumPy refuses: it must fit even where an extent of 0 makes the
// product 0.
std::optional<std::int64_t> product(std::span<const std::int64_t> shape, std::size_t element_bytes) {
  std::int64_t bytes = static_cast<std::int64_t>(element_bytes);
  bool empty = false;
  for (const std::int64_t extent : shape) {
    empty |= extent == 0;
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(extent, 1), &bytes)) return std::nullopt;
  }
  return empty ? 0 : bytes / static_cast<std::int64_t>(element_bytes);
}

std::uint32_t little_endian(std::span<const std::uint8_t> bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | bytes[i];
  return value;
}

}  // namespace

NpyHeader parse_npy_header(std::span<const std::uint8_t> head, std::uint64_t file_size,
                           const std::string& path) {
  head = head.first(std::min<std::uint64_t>(head.size(), file_size));
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  if (!text.starts_with(kNpyMagic))
    throw FormatError(path, "byte 0", "expected the magic text of a NumPy file");
  if (text.size() < 8) throw FormatError(path, "byte 6", "the file ends before its format version");
  const int version = head[6];
  if (version < 1 || version > 3 || head[7] != 0) {
    throw FormatError(path, "byte 6",
                      "expected format version 1.0, 2.0 or 3.0, found " + std::to_string(version) + "." +
                          std::to_string(head[7]));
  }
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  const std::size_t start = 8 + length_bytes;
  if (text.size() < start) throw FormatError(path, "byte 8", "the file ends before the length of its header");
  const std::size_t length = little_endian(head.subspan(8, length_bytes));
  if (length > kLongestHead - start) {
    throw FormatError(path, "byte 8",
                      "expected a header of at most 64 KiB, found " + std::to_string(length) + " bytes");
  }
  if (length > text.size() - start) {
    throw FormatError(path, "byte 8",
                      "the header has " + std::to_string(length) + " bytes, but the file ends after " +
                          std::to_string(text.size() - start) + " of them");
  }

  NpyHeader header = HeaderParser(text.substr(start, length), start, path).parse();
  header.data_offset = start + length;
  const auto count = product(header.shape, element_size(header.dtype));
  if (!count) throw FormatError(path, "\"shape\"", "the size of the data does not fit into 63 bits");
  header.count = *count;
  const std::uint64_t expected = static_cast<std::uint64_t>(*count) * element_size(header.dtype);
  const std::uint64_t found = file_size - header.data_offset;
  if (found != expected) {
    throw FormatError(path, "byte " + std::to_string(header.data_offset),
                      "expected " + std::to_string(expected) +
                          " bytes of data for the shape and dtype of the header, found " +
                          std::to_string(found));
  }
  return header;
}

std::string npy_header(DType dtype, bool fortran_order, std::span<const std::int64_t> shape) {
  const auto descr =
      std::find_if(kDescrs.begin(), kDescrs.end(), [dtype](const Descr& d) { return d.dtype == dtype; });
  if (descr == kDescrs.end()) {
    throw UnsupportedError("NumPy files have no dtype for " + std::string(dtype_name(dtype)));
  }
  std::string header = "{'descr': '" + std::string(descr->text) +
                       "', 'fortran_order': " + (fortran_order ? "True" : "False") + ", 'shape': (";
  for (std::size_t i = 0; i < shape.size(); ++i) header += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  header += shape.size() == 1 ? ",), }" : "), }";
  if (!shape.empty()) {
    // NumPy leaves room to let the slowest extent grow in place to 21 digits.
    const std::size_t digits = std::to_string(fortran_order ? shape.back() : shape.front()).size();
    header.append(21 - digits, ' ');
  }
  constexpr std::size_t kPrefix = 10;  // magic, version, length
  constexpr std::size_t kAlignment = 64;
  header.append(kAlignment - (kPrefix + header.size() + 1) % kAlignment, ' ');
  header += '\n';
  if (header.size() > 0xFFFF)
    throw UnsupportedError("NumPy files of version 1.0 cannot hold so many dimensions");

  std::string result(kNpyMagic);
  result += {'\x01', '\x00', static_cast<char>(header.size() & 0xFF), static_cast<char>(header.size() >> 8)};
  return result + header;
}

NpyHeader read_npy_header(const std::filesystem::path& path) {
  const InputFile file(path);
  std::vector<std::uint8_t> head(std::min<std::uint64_t>(file.size(), kLongestHead));
  file.read(0, head);
  return parse_npy_header(head, file.size(), path.string());
}

}  // namespace msprobe::io

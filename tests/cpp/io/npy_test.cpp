// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <map>
#include <sstream>

#include "catch.h"
#include "msprobe/error.h"
#include "msprobe/tensor_file.h"
#include "temp_dir.h"

namespace msprobe::io {
namespace {

using test::TempDir;
using test::write_bytes;

std::vector<std::int64_t> parse_extents(const std::string& text) {
  std::vector<std::int64_t> shape;
  std::istringstream extents(text == "-" ? "" : text);
  for (std::string extent; std::getline(extents, extent, ',');) shape.push_back(std::stoll(extent));
  return shape;
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

const std::map<std::string, DType> kDTypes{
    {"<f8", DType::kFloat64},   {"<f4", DType::kFloat32},    {"<f2", DType::kFloat16},
    {"<i8", DType::kInt64},     {"<i4", DType::kInt32},      {"<i2", DType::kInt16},
    {"|i1", DType::kInt8},      {"<u8", DType::kUInt64},     {"<u4", DType::kUInt32},
    {"<u2", DType::kUInt16},    {"|u1", DType::kUInt8},      {"|b1", DType::kBool},
    {"<c8", DType::kComplex64}, {"<c16", DType::kComplex128}};

// A file of version 1.0 around any header text, without padding.
std::string wrap(const std::string& header, std::size_t data_bytes = 0) {
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size() & 0xFF);
  file += static_cast<char>(header.size() >> 8);
  return file + header + std::string(data_bytes, '\1');
}

std::string dictionary(const std::string& descr, const std::string& order, const std::string& shape) {
  return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }";
}

NpyHeader npy_header_of(const std::string& file) {
  return parse_npy_header({reinterpret_cast<const std::uint8_t*>(file.data()), file.size()}, file.size(),
                          "x.npy");
}

std::string npy_refusal(const std::string& file) {
  try {
    npy_header_of(file);
  } catch (const FormatError& error) {
    CHECK(error.path() == "x.npy");
    return std::string(error.what()).substr(7);
  }
  return "accepted";
}

TEST_CASE("npy_header: writes the bytes NumPy writes, and parse_npy_header reads them") {
  std::istringstream lines(test::read_bytes(MSPROBE_TEST_DATA "/grad_probe/numpy_headers.txt"));
  std::string descr;
  bool order = false;
  std::string extents;
  std::string hex;
  int checked = 0;
  for (; lines >> descr >> order >> extents >> hex; ++checked) {
    const DType dtype = kDTypes.at(descr);
    const std::vector<std::int64_t> shape = parse_extents(extents);
    const std::string expected = from_hex(hex);
    CHECK(npy_header(dtype, order, shape) == expected);

    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    const NpyHeader header =
        parse_npy_header({reinterpret_cast<const std::uint8_t*>(expected.data()), expected.size()},
                         expected.size() + static_cast<std::uint64_t>(count) * element_size(dtype), "x.npy");
    CHECK(header.dtype == dtype);
    CHECK(header.fortran_order == order);
    CHECK(header.shape == shape);
    CHECK(header.count == count);
    CHECK(header.data_offset == expected.size());
  }
  CHECK(checked == 31);
}

TEST_CASE("npy_header: data of small headers starts at byte 128") {
  CHECK(npy_header(DType::kBool, false, {}).size() == 128);
  CHECK(npy_header(DType::kBool, true, std::array<std::int64_t, 2>{3, 5}).size() == 128);
}

TEST_CASE("npy_header: dtypes that NumPy does not have are refused") {
  CHECK_THROWS_AS(npy_header(DType::kBFloat16, false, {}), UnsupportedError);
  CHECK_THROWS_AS(npy_header(DType::kFloat8E5M2, false, {}), UnsupportedError);
}

TEST_CASE("parse_npy_header: versions 2.0 and 3.0 have four bytes of length") {
  const std::string header = dictionary("'|b1'", "False", "(2, 3)") + "\n";
  for (const char version : {'\2', '\3'}) {
    std::string file = std::string("\x93NUMPY") + version + std::string(1, '\0');
    file += {static_cast<char>(header.size()), '\0', '\0', '\0'};
    file += header + "abcdef";
    CHECK(npy_header_of(file).shape == std::vector<std::int64_t>{2, 3});
  }
}

TEST_CASE("parse_npy_header: order of keys, quotes and spaces do not matter") {
  const NpyHeader header =
      npy_header_of(wrap("{ \"shape\":(4 ,) ,'fortran_order' :True,\n'descr':'<f2' }  \n", 8));
  CHECK(header.dtype == DType::kFloat16);
  CHECK(header.fortran_order);
  CHECK(header.shape == std::vector<std::int64_t>{4});
}

TEST_CASE("parse_npy_header: files that are no NumPy files or end too early") {
  CHECK(npy_refusal("") == "byte 0: expected the magic text of a NumPy file");
  CHECK(npy_refusal("PK\3\4 a zip file") == "byte 0: expected the magic text of a NumPy file");
  CHECK(npy_refusal("\x93NUMPY") == "byte 6: the file ends before its format version");
  CHECK(npy_refusal(std::string("\x93NUMPY\x04\x00\x10\x00", 10)) ==
        "byte 6: expected format version 1.0, 2.0 or 3.0, found 4.0");
  CHECK(npy_refusal(std::string("\x93NUMPY\x01\x00\x10", 9)) ==
        "byte 8: the file ends before the length of its header");
  CHECK(npy_refusal(std::string("\x93NUMPY\x01\x00\x76\x00{'descr'", 18)) ==
        "byte 8: the header has 118 bytes, but the file ends after 8 of them");
  // Version 2.0 with a header length of 4 GiB.
  CHECK(npy_refusal(std::string("\x93NUMPY\x02\x00\xFF\xFF\xFF\xFF{", 13)) ==
        "byte 8: expected a header of at most 64 KiB, found 4294967295 bytes");
}

TEST_CASE("parse_npy_header: a truncated or overlong file is refused at every length") {
  const std::string whole =
      npy_header(DType::kBool, false, std::array<std::int64_t, 2>{3, 5}) + std::string(15, '\1');
  REQUIRE(npy_header_of(whole).count == 15);
  for (std::size_t size = 0; size < whole.size(); ++size)
    CHECK_THROWS_AS(npy_header_of(whole.substr(0, size)), FormatError);
  CHECK(npy_refusal(whole + "x") ==
        "byte 128: expected 15 bytes of data for the shape and dtype of the header, found 16");
}

TEST_CASE("parse_npy_header: hostile shapes") {
  const auto shape = [](const std::string& text) {
    return npy_refusal(wrap(dictionary("'|b1'", "False", text)));
  };
  CHECK(shape("(-1,)") == "\"shape\": an extent must be 0 or more, found -1");
  CHECK(shape("(3, -4)") == "\"shape\": an extent must be 0 or more, found -4");
  CHECK(shape("(9223372036854775808,)") == "\"shape\": an extent does not fit into 63 bits");
  CHECK(shape("(4294967296, 4294967296)") == "\"shape\": the size of the data does not fit into 63 bits");
  CHECK(shape("(0, 9223372036854775807, 9223372036854775807)") ==
        "\"shape\": the size of the data does not fit into 63 bits");
  CHECK(shape("(9223372036854775807,)").find("expected 9223372036854775807 bytes of data") !=
        std::string::npos);
  CHECK(shape("(3)") == "\"shape\": expected ',' or ')' after an integer");
  CHECK(shape("[3]") == "\"shape\": expected a tuple of integers");
  CHECK(shape("3") == "\"shape\": expected a tuple of integers");
  CHECK(shape("(3.0,)") == "\"shape\": expected ',' or ')' after an integer");
  CHECK(shape("(,)") == "\"shape\": expected an integer, found \",), }\"");
  CHECK(shape("(True,)") == "\"shape\": expected an integer, found \"True,), \"");
  CHECK(shape("(__import__('os'),)").find("\"shape\": expected an integer") == 0);
  std::string many = "(";
  for (int i = 0; i < 65; ++i) many += "1, ";
  CHECK(shape(many + ")") == "\"shape\": expected at most 64 dimensions");
}

TEST_CASE("parse_npy_header: dtypes that are not plain little-endian numbers") {
  const auto descr = [](const std::string& text) {
    return npy_refusal(wrap(dictionary(text, "False", "()"), 1));
  };
  CHECK(descr("'|O'").find("\"descr\": found \"|O\", an object dtype") == 0);
  CHECK(descr("'>f4'").find("\"descr\": found \">f4\", big-endian data") == 0);
  CHECK(descr("[('a', '<f4')]").find("\"descr\": structured dtypes are not supported") == 0);
  CHECK(descr("'<U5'").find("\"descr\": found \"<U5\", expected a number type") == 0);
  CHECK(descr("''").find("\"descr\": found \"\", expected a number type") == 0);
  CHECK(descr("'f4'").find("\"descr\": found \"f4\", expected a number type") == 0);
  CHECK(descr("1") == "byte 20: expected a dtype in quotes");
  CHECK(npy_refusal(wrap("{'descr': '|b1")) == "byte 20: a quote is opened and never closed");
}

TEST_CASE("parse_npy_header: text that is not the dictionary NumPy writes") {
  const std::string good = dictionary("'|b1'", "False", "()");
  REQUIRE(npy_refusal(wrap(good, 1)) == "accepted");
  const auto text = [](const std::string& header) { return npy_refusal(wrap(header, 1)); };
  CHECK(text("") == "byte 10: expected '{' in the header dictionary");
  CHECK(text("{}") == "byte 12: the header has no key \"descr\"");
  CHECK(text("{'descr': '|b1', 'shape': ()}") == "byte 39: the header has no key \"fortran_order\"");
  CHECK(text("{'descr': '|b1', 'fortran_order': False}") == "byte 50: the header has no key \"shape\"");
  CHECK(text(good.substr(0, good.size() - 1)) == "byte 64: expected a key in quotes");
  CHECK(text(good + "x") == "byte 65: expected only spaces after the dictionary of the header");
  CHECK(text(good + good).find("expected only spaces after the dictionary") != std::string::npos);
  CHECK(text("{'descr': '|b1', 'descr': '|b1', }").find("found \"descr\"") != std::string::npos);
  CHECK(text("{'extra': 1, }").find("found \"extra\"") != std::string::npos);
  CHECK(text(dictionary("'|b1'", "1", "()")) == "\"fortran_order\": expected True or False");
  CHECK(text(dictionary("'|b1'", "Truex", "()")).find("expected '}'") != std::string::npos);
  CHECK(text("{'" + std::string(1000, '\x1b') + "': 1}").size() < 200);  // no flood and no control characters
  CHECK(text("{'" + std::string(1000, '\x1b') + "': 1}").find('\x1b') == std::string::npos);
}

TEST_CASE("read_npy_header: reads the header of a file on disk") {
  const TempDir dir;
  const std::array<std::int64_t, 2> shape{300, 400};
  write_bytes(dir / "a.npy", npy_header(DType::kBool, true, shape) + std::string(120000, '\0'));
  const NpyHeader header = read_npy_header(dir / "a.npy");
  CHECK(header.fortran_order);
  CHECK(header.count == 120000);
  write_bytes(dir / "b.npy", "");
  CHECK_THROWS_AS(read_npy_header(dir / "b.npy"), FormatError);
  CHECK_THROWS_AS(read_npy_header(dir / "missing.npy"), IoError);
}

}  // namespace
}  // namespace msprobe::io

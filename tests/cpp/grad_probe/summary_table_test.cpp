// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "grad_probe/summary_table.h"

#include <limits>

#include "catch.h"

namespace msprobe::grad_probe {
namespace {

std::string header_of(Level level, std::vector<Bound> bounds = {}) {
  Options options;
  options.level = level;
  options.bounds = std::move(bounds);
  std::string text;
  for (const Column& column : columns(options)) text += (text.empty() ? "" : "|") + column.header;
  return text;
}

// The cell of one column for one measurement.
std::string cell(const std::string& header, const Measurement& m, const Options& options) {
  for (const Column& column : columns(options)) {
    if (column.header == header) return column.cell(m);
  }
  FAIL("no column " + header);
  return {};
}

std::string norm_text(double norm, DType dtype) {
  Measurement m;
  m.dtype = dtype;
  m.summary.norm = norm;
  return cell("norm", m, Options{});
}

TEST_CASE("columns: each level has those of the format, bounds are spelled by their labels") {
  CHECK(header_of(Level::kL0) == "param_name|MD5|max|min|norm|shape");
  CHECK(header_of(Level::kL1) == "param_name|max|min|norm|shape");
  CHECK(header_of(Level::kL2, {{-0.1, "-0.1"}, {0, "0"}, {1e16, "1e+16"}}) ==
        "param_name|(-inf, -0.1]|(-0.1, 0]|(0, 1e+16]|(1e+16, inf)|=0|max|min|norm|shape");
  CHECK(header_of(Level::kL2) == "param_name|(-inf, inf)|=0|max|min|norm|shape");
}

TEST_CASE("columns: max and min go through float32 and are printed as Python prints the double") {
  Measurement m;
  m.summary.max = 0.1;
  m.summary.min = -1e300;
  CHECK(cell("max", m, {}) == "0.10000000149011612");
  CHECK(cell("min", m, {}) == "-inf");
  m.summary.max = 1.0;
  m.summary.min = std::numeric_limits<double>::quiet_NaN();
  CHECK(cell("max", m, {}) == "1.0");
  CHECK(cell("min", m, {}) == "nan");
}

TEST_CASE("columns: the norm is rounded to the dtype of the gradient, ties to even") {
  CHECK(norm_text(120000, DType::kFloat16) == "inf");
  CHECK(norm_text(65519, DType::kFloat16) == "65504.0");
  CHECK(norm_text(65520, DType::kFloat16) == "inf");
  CHECK(norm_text(2049, DType::kFloat16) == "2048.0");
  CHECK(norm_text(2051, DType::kFloat16) == "2052.0");
  CHECK(norm_text(0x1.8p-25, DType::kFloat16) ==
        "5.960464477539063e-08");                       // rounds up to the least subnormal
  CHECK(norm_text(0x1p-25, DType::kFloat16) == "0.0");  // a tie: to even, which is 0
  CHECK(norm_text(1.2592, DType::kBFloat16) == "1.2578125");
  CHECK(norm_text(257, DType::kBFloat16) == "256.0");
  CHECK(norm_text(259, DType::kBFloat16) == "260.0");
  CHECK(norm_text(3.39e38, DType::kBFloat16) == "3.3895313892515355e+38");
  CHECK(norm_text(3.4e38, DType::kBFloat16) == "inf");
  CHECK(norm_text(1e300, DType::kFloat64) == "inf");
  CHECK(norm_text(0.1, DType::kFloat64) == "0.10000000149011612");
  CHECK(norm_text(0.1, DType::kFloat32) == "0.10000000149011612");
  CHECK(norm_text(std::numeric_limits<double>::quiet_NaN(), DType::kFloat16) == "nan");
  CHECK(norm_text(std::numeric_limits<double>::infinity(), DType::kBFloat16) == "inf");
}

TEST_CASE("columns: shares, checksum and shape") {
  Options options;
  options.level = Level::kL2;
  options.bounds = {{0, "0"}};
  Measurement m;
  m.shape = {3, 4};
  m.summary.count = 12;
  m.summary.zero_count = 3;
  m.summary.interval_counts = {8, 4};
  CHECK(cell("(-inf, 0]", m, options) == "0.6666666666666666");
  CHECK(cell("(0, inf)", m, options) == "0.3333333333333333");
  CHECK(cell("=0", m, options) == "0.25");
  CHECK(cell("shape", m, options) == "[3, 4]");
  m.shape = {};
  CHECK(cell("shape", m, options) == "[]");
  m.shape = {5};
  CHECK(cell("shape", m, options) == "[5]");
  options.level = Level::kL0;
  m.summary.crc32 = 0xabc;
  CHECK(cell("MD5", m, options) == "00000abc");
}

TEST_CASE("columns: an empty tensor has no extremes and whole shares") {
  Options options;
  options.level = Level::kL2;
  options.bounds = {{0, "0"}};
  Measurement m;
  m.shape = {0};
  m.summary.interval_counts = {0, 0};
  CHECK(cell("max", m, options) == "nan");
  CHECK(cell("min", m, options) == "nan");
  CHECK(cell("norm", m, options) == "0.0");
  CHECK(cell("(0, inf)", m, options) == "0");
  CHECK(cell("=0", m, options) == "0");
}

TEST_CASE("summary_csv: a step without parameters still has a header") {
  CHECK(summary_csv(Options{}, {}) == "\xEF\xBB\xBFparam_name,max,min,norm,shape\r\n");
}

}  // namespace
}  // namespace msprobe::grad_probe

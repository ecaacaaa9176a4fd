// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <string>
#include <vector>

#include "catch.h"
#include "msprobe/error.h"
#include "msprobe/trainer_mon.h"

using namespace msprobe;
using monitor::CsvOptions;
using monitor::Frame;
using monitor::Labels;
using monitor::Row;

namespace {

Row row_of(std::uint32_t label, std::int32_t micro, double value, std::vector<std::int64_t> shape = {}) {
  Row row = monitor::row_of_value(label, value, 1e-8);
  row.micro_step = micro;
  row.shape = std::move(shape);
  return row;
}

const std::vector<std::string> kOps{"min", "norm", "nans", "zeros", "shape", "dtype"};

}  // namespace

TEST_CASE("csv rows: columns as the existing tool has them") {
  Labels labels;
  labels.add({0, "fc1.input", 0});
  labels.add({1, "a,\"b", 0});
  Frame frame;
  frame.add(row_of(0, 0, -1.73425012, {3, 4}));
  frame.add(row_of(1, 1, 0));
  const CsvOptions options{kOps, 6, true};
  CHECK(csv_header(options) == "vpp_stage,name,step,micro_step,min,norm,nans,zeros,shape,dtype\n");
  CHECK(csv_rows(frame.rows(), labels, 7, options) ==
        "0,fc1.input,7,0,-1.73425,1.73425,0,0.0,\"[3, 4]\",torch.float32\n"
        "1,\"a,\"\"b\",7,1,0.0,0.0,0,1.0,[],torch.float32\n");
}

TEST_CASE("csv rows: MindSpore's names of dtypes") {
  Labels labels;
  labels.add({0, "x", 0});
  Row row = row_of(0, -1, 1);
  row.dtype = DType::kBFloat16;
  const std::vector<Row> rows{row};
  CHECK(csv_rows(rows, labels, 0, {{"id", "dtype"}, 6, false, false}) == "0,x,0,1.0,BFloat16\n");
}

TEST_CASE("csv rows: what is missing is nan in every column") {
  Labels labels;
  labels.add({0, "x", 0});
  Row row;
  row.missing = true;
  const std::vector<Row> rows{row};
  CHECK(csv_rows(rows, labels, 0, {kOps, 6, false}) == "0,x,0,nan,nan,nan,nan,nan,nan\n");
}

TEST_CASE("csv rows: numbers made elsewhere have no shape") {
  Labels labels;
  labels.add({0, "all_reduce.pre_0", 0});
  Row row;
  row.given = {{"norm", 1.5}, {"nans", 2}};
  const std::vector<Row> rows{row};
  CHECK(csv_rows(rows, labels, 3, {{"norm", "max", "nans", "shape", "dtype"}, 6, false}) ==
        "0,all_reduce.pre_0,3,1.5,nan,2,nan,nan\n");
}

TEST_CASE("csv rows: numbers are rounded to the digits, and large ones stay") {
  Labels labels;
  labels.add({0, "x", 0});
  const auto text = [&](double value, int digits) {
    const std::vector<Row> rows{row_of(0, -1, value)};
    return csv_rows(rows, labels, 0, {{"max"}, digits, false});
  };
  CHECK(text(0.12345678, 3) == "0,x,0,0.123\n");
  CHECK(text(-1e-9, 6) == "0,x,0,-0.0\n");
  CHECK(text(59541987968.0, 6) == "0,x,0,59541987968.0\n");
  CHECK(text(1e300, 20) == "0,x,0,1e+300\n");
  CHECK(text(std::numeric_limits<double>::infinity(), 6) == "0,x,0,inf\n");
}

TEST_CASE("csv rows: id is the value of a tensor without dimensions") {
  CHECK(scalar(row_of(0, -1, 2.5), "id") == 2.5);
  CHECK(std::isnan(scalar(row_of(0, -1, 2.5, {1}), "id")));
}

TEST_CASE("csv rows: unknown statistics and labels are refused") {
  const Labels labels;
  const std::vector<Row> rows{row_of(0, -1, 1)};
  CHECK_THROWS_AS(csv_rows(rows, labels, 0, {{"norm"}, 6, false}), InvalidArgument);
  CHECK_THROWS_AS(scalar(rows[0], "median"), InvalidArgument);
  CHECK_THROWS_AS(scalar(rows[0], "shape"), InvalidArgument);
}

TEST_CASE("frame: a second measurement takes the place of the first") {
  Frame frame;
  frame.add(row_of(3, 0, 1));
  frame.add(row_of(1, 0, 2));
  frame.add(row_of(3, 0, 5));
  frame.add(row_of(3, 1, 6));
  REQUIRE(frame.size() == 3);
  CHECK(frame.rows()[0].sums.sum == 5);
  CHECK(frame.position(3, 1) == 2);
  CHECK(frame.position(9, 0) == Frame::npos);
  frame.sort([](const Row& row) { return static_cast<std::size_t>(10 - row.label); });
  CHECK(frame.position(1, 0) == 2);
  frame.clear();
  CHECK(frame.size() == 0);
  CHECK(frame.position(3, 0) == Frame::npos);
}

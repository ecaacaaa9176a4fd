// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "catch.h"
#include "graph/cell_number.h"
#include "graph/made_up.h"
#include "msprobe/graph.h"

using namespace msprobe;
using namespace msprobe::graph;
using test::has;
using test::MadeDump;
using test::MadeTensor;

// Random numbers against Python: tests/python/graph/test_graph_view.py.

namespace {

const std::string kName = "Torch.x.0.forward";

std::string number(double value) {
  std::string text;
  append_cell_number(text, value);
  return text;
}

struct Cells {
  std::string inputs, outputs;
};

Cells cells_of(const Graph& graph, bool shows_md5 = false) {
  Cells cells;
  append_cells(graph, graph.find(kName), shows_md5, nullptr, nullptr, cells.inputs, cells.outputs);
  return cells;
}

Graph graph_of(const std::string& content, const std::string& task = "statistics") {
  return MadeDump(task).entry(kName, "null").record(kName, content).build();
}

// The only input.
std::string cell_of(const std::string& json, bool shows_md5 = false) {
  return cells_of(graph_of(R"("input_args":[)" + json + "]"), shows_md5).inputs;
}

std::string compared(const MadeTensor& ours, const MadeTensor& theirs) {
  const Graph target = graph_of(R"("output":[)" + ours.json() + "]");
  Graph golden = graph_of(R"("output":[)" + theirs.json() + "]");
  const Comparison comparison = compare(target, golden);
  Cells cells;
  append_cells(target, target.find(kName), false, &comparison, &golden, cells.inputs, cells.outputs);
  return cells.outputs;
}

}  // namespace

TEST_CASE("append_cell_number: six decimals at most, an exponent for what is small or large") {
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(number(0) == "0.0");
  CHECK(number(-0.0) == "-0.0");
  CHECK(number(1) == "1.0");
  CHECK(number(-2.5) == "-2.5");
  CHECK(number(0.1234567) == "0.123457");
  CHECK(number(0.1234564999) == "0.123456");
  CHECK(number(1.9999999) == "2.0");
  CHECK(number(1e-4) == "0.0001");
  CHECK(number(9.9999e-5) == "9.999900e-05");
  CHECK(number(-1.23456789e-30) == "-1.234568e-30");
  CHECK(number(123456789012.3456789) == "123456789012.34567");
  CHECK(number(9999999999999998.0) == "9999999999999998.0");
  CHECK(number(1e16) == "1.000000e+16");
  CHECK(number(1.7976931348623157e308) == "1.797693e+308");
  CHECK(number(5e-324) == "4.940656e-324");
  CHECK(number(infinity) == "inf");
  CHECK(number(-infinity) == "-inf");
  CHECK(number(std::numeric_limits<double>::quiet_NaN()) == "nan");
}

TEST_CASE("append_cells: a tensor") {
  CHECK(cell_of(R"({"type":"torch.Tensor","dtype":"torch.float32","shape":[2, 3],"Max":1.5,"Min":-1e-7,)"
                R"("Mean":0.12345678,"Norm":3,"requires_grad":true})") ==
        R"({"Torch.x.0.forward.input.0": {"type": "torch.Tensor", "dtype": "torch.float32", )"
        R"("shape": "[2, 3]", "Max": "1.5", "Min": "-1.000000e-07", "Mean": "0.123457", "Norm": "3", )"
        R"("requires_grad": "True", "data_name": "-1"}})");
}

TEST_CASE("append_cells: a scalar stands in its value and in all statistics") {
  const std::string cell = cell_of(R"({"type":"float","value":0.00001})");
  CHECK(has(cell, R"("value": "1.000000e-05")"));
  CHECK(has(cell, R"("Max": "1.000000e-05", "Min": "1.000000e-05", "Mean": "1.000000e-05")"));
  CHECK(has(cell, R"("dtype": "<class float>")"));
  CHECK(has(cell_of(R"({"type":"bool","value":true})"), R"("value": "True")"));
  CHECK(has(cell_of(R"({"type":"int","value":123456789012345678901234567890})"),
            R"("Max": "123456789012345678901234567890")"));
}

TEST_CASE("append_cells: what has no statistics is shown as null") {
  CHECK(cell_of("null") == R"({"Torch.x.0.forward.input.0": {"value": "null"}})");
  CHECK(cell_of(R"({"type":"str","value":null})") == R"({"Torch.x.0.forward.input.0": {"value": "null"}})");
  CHECK(cell_of(R"({"type":"str","value":"None"})") == R"({"Torch.x.0.forward.input.0": {"value": "null"}})");
  MadeTensor tensor;
  tensor.max = "null";
  CHECK(cell_of(tensor.json()) == R"({"Torch.x.0.forward.input.0": {"value": "null"}})");
}

TEST_CASE("append_cells: texts lose quotes, None becomes null, decimals are cut") {
  CHECK(has(cell_of(R"({"type":"str","value":"it's 'None'"})"), R"("value": "its null")"));
  CHECK(has(cell_of(R"({"type":"str","value":"12.3456789%"})"), R"("value": "12.345679%")"));
  CHECK(has(cell_of(R"({"type":"str","value":"12.345678"})"), R"("value": "12.345678")"));
  CHECK(has(cell_of(R"({"type":"str","value":"-12.3456789"})"), R"("value": "-12.3456789")"));
  CHECK(has(cell_of(R"({"type":"str","value":"1.5e-3"})"), R"("value": "1.5e-3")"));
}

TEST_CASE("append_cells: whatever stands in a text, the cells are JSON") {
  // Escapes as in the files of the existing tool: everything beyond ASCII.
  const std::string cell = cell_of(R"({"type":"str","value":"a\"b\\c\n\u00e9\u4e2d\ud83d\ude00\u0001"})");
  CHECK(has(cell, R"("value": "a\"b\\c\n\u00e9\u4e2d\ud83d\ude00\u0001")"));
  const std::string group =
      cell_of(R"({"type":"torch.ProcessGroup","group_ranks":"[0, \"1\\\n]","group_id":"g\"h"})");
  CHECK(has(group, R"("group_ranks": "[0, \"1\\\n]")"));
  CHECK(has(group, R"("group_id": "g\"h")"));
  const std::string size = cell_of(R"({"type":"torch.Size","value":["a\"b", 2]})");
  CHECK_FALSE(has(size, R"(a"b)"));
}

TEST_CASE("append_cells: a group of processes shows its ranks and nothing else") {
  CHECK(cell_of(R"({"type":"torch.ProcessGroup","group_ranks":[0, 1],"group_id":"5f37"})") ==
        R"({"Torch.x.0.forward.input.0": {"type": "torch.ProcessGroup", "group_ranks": "[0, 1]", )"
        R"("group_id": "5f37", "data_name": "-1"}})");
}

TEST_CASE("append_cells: a tensor with a file goes by its name") {
  MadeTensor tensor;
  tensor.more = R"(,"data_name":"Torch.x.0.forward.input.7.pt")";
  CHECK(has(cell_of(tensor.json()), R"("Torch.x.0.forward.input.7": {)"));
}

TEST_CASE("append_cells: inputs come before parameters; outputs stand apart") {
  const std::string tensor = MadeTensor().json();
  const Cells cells =
      cells_of(graph_of(R"("output":[)" + tensor + R"(],"parameters":{"w":)" + tensor +
                        R"(},"input_kwargs":{"mask":)" + tensor + R"(},"input_args":[)" + tensor + "]"));
  const auto at = [&](const char* name) { return cells.inputs.find(name); };
  CHECK(at("forward.input.0") < at("forward.input.mask"));
  CHECK(at("forward.input.mask") < at("forward.parameters.w"));
  CHECK(at("forward.parameters.w") != std::string::npos);
  CHECK(has(cells.outputs, "forward.output.0"));
  CHECK_FALSE(has(cells.inputs, "output"));
}

TEST_CASE("append_cells: checksums only where they are asked for") {
  MadeTensor tensor;
  tensor.more = R"(,"md5":"0a0b0c0d")";
  CHECK(has(cell_of(tensor.json(), true), R"("md5": "0a0b0c0d")"));
  CHECK_FALSE(has(cell_of(tensor.json(), false), "md5"));
}

TEST_CASE("append_cells: differences are target minus reference, relative to the reference") {
  MadeTensor ours, theirs;
  ours.max = "3.0", theirs.max = "2.0";
  ours.min = "1.0", theirs.min = "0.0";
  ours.mean = "NaN";
  ours.norm = "1e-20", theirs.norm = "2e-20";
  const std::string cell = compared(ours, theirs);
  CHECK(has(cell, R"("Max diff": "1.0", "Min diff": "1.0", "Mean diff": "Nan")"));
  CHECK(has(cell, R"("L2norm diff": "-1.000000e-20")"));
  CHECK(has(cell, R"("MaxRelativeErr": "50.0%", "MinRelativeErr": "N/A", "MeanRelativeErr": "Nan")"));
  CHECK(has(cell, R"("NormRelativeErr": "50.0%", "Requires_grad Consistent": "True")"));
}

TEST_CASE("append_cells: an infinity among results has a tab behind it") {
  MadeTensor ours;
  ours.max = "Infinity";
  CHECK(has(compared(ours, {}), R"("Max diff": "inf\t")"));
  ours.max = "-Infinity";
  CHECK(has(compared(ours, {}), R"("Max diff": "-inf\t")"));
}

TEST_CASE("append_cells: numbers at the ends of the range stay numbers") {
  MadeTensor ours, theirs;
  ours.max = "1.7e308", theirs.max = "-1.7e308";  // their difference overflows
  ours.min = "-1e300", theirs.min = "1e-300";     // and so does this ratio
  const std::string cell = compared(ours, theirs);
  CHECK(has(cell, R"("Max": "1.700000e+308")"));
  CHECK(has(cell, R"("Max diff": "inf\t")"));
  CHECK(has(cell, R"("MinRelativeErr": "inf%")"));
  CHECK(has(compared(theirs, ours), R"("Max diff": "-inf\t")"));
}

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <string>

#include "catch.h"
#include "msprobe/viewer_cell.h"

using namespace msprobe::viewer;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The first cell of a column.
struct Column {
  explicit Column(const std::string& json) { cells.read(json); }
  const Cell& first() const { return cells.begin()->second; }
  Cells cells;
};

Column tensor(const std::string& more, const std::string& dtype = "torch.float32") {
  return Column(R"({"a": {"type": "torch.Tensor", "dtype": ")" + dtype + R"(", "shape": "[4, 4]", )" + more +
                "}}");
}

}  // namespace

TEST_CASE("Numbers of cells: percentages, words and what is none") {
  CHECK(cell_number("1.5") == 1.5);
  CHECK(cell_number(" +2e-3 ") == 2e-3);
  CHECK(cell_number("13.7%").value() == Approx(0.137));
  CHECK(cell_number("-inf") == -kInfinity);
  CHECK(cell_number("1e999") == kInfinity);
  CHECK(std::isnan(cell_number("NaN").value()));
  for (const auto* const text : {"", "%", "null", "1.5x", "unsupported", "+-1", "nan(1)", "0x10"}) {
    CAPTURE(text);
    CHECK_FALSE(cell_number(text));
  }
}

TEST_CASE("Cells: what is not of their form is left out") {
  Cells cells;
  cells.read(
      R"({"a": {"Max": "1", "Min": null, "n": 3, "deep": {"Max": "9"}, "flag": true}, "b": 5, "c": {}})");
  REQUIRE(cells.size() == 2);
  const Cell& a = cells.begin()->second;
  CHECK(cells.begin()->first == "a");
  CHECK(a.number("Max") == 1);
  CHECK(a.has("Min"));
  CHECK_FALSE(a.text("Min"));
  CHECK(a.shown("Min") == "None");
  CHECK(a.number("n") == 3);
  CHECK_FALSE(a.number("deep"));
  CHECK_FALSE(a.number("flag"));
  CHECK_FALSE(a.has("Norm"));
  CHECK(a.shown("Norm").empty());

  cells.read(
      R"({"a": {"Max": "1"}, "b": {"Max": "2"}, "a": {"Min": "3", "Min": "4"}})");  // the last one counts
  REQUIRE(cells.size() == 2);
  CHECK_FALSE(cells.begin()->second.has("Max"));
  CHECK(cells.begin()->second.number("Min") == 4);
  for (const auto* const text : {"", "null", "5", "[]", "[{\"a\": {}}]", "{\"a\": {\"Max\": ", "{'a': {}}"}) {
    CAPTURE(text);
    cells.read(text);
    CHECK(cells.empty());
  }
  cells.read(std::string(5000, '['));
  CHECK(cells.empty());
}

TEST_CASE("Differences are counted in rounding errors") {
  const std::string plain = R"("Max": "1.0", "Min": "-1.0", "Mean": "0.0", "Norm": "4.0")";
  const std::string none =
      R"(, "Max diff": "0.0", "Min diff": "0.0", "Mean diff": "0.0", "L2norm diff": "0.0")";
  CHECK(ulps(tensor(plain + none).first(), nullptr) == 0);
  // One element of 16 is off by an epsilon: as an L2 distance, relative to the norm, that is a quarter.
  CHECK(ulps(tensor(plain + R"(, "Max diff": "1.1920928955078125e-07")").first(), nullptr).value() ==
        Approx(0.25));
  CHECK(ulps(tensor(plain + R"(, "Max diff": "0.0078125")", "torch.bfloat16").first(), nullptr).value() ==
        Approx(0.25));
  // A mean near zero is measured against a typical element: here 4 / sqrt(16). The order in which it was
  // added up may make some roundings of it.
  CHECK(ulps(tensor(plain + R"(, "Mean diff": "1.1920928955078125e-07")").first(), nullptr).value() == 0);
  CHECK(ulps(tensor(plain + R"(, "Mean diff": "0.0001220703125")").first(), nullptr).value() ==
        Approx(1024).epsilon(0.02));
  CHECK(ulps(tensor(plain + R"(, "Max diff": "1")", "torch.int64").first(), nullptr) == kInfinity);
  CHECK(ulps(tensor(plain + R"(, "MaxAbsErr": "2.384185791015625e-07")").first(), nullptr) == 2);
  CHECK(ulps(tensor(plain + R"(, "MaxAbsErr": "nan")").first(), nullptr) == kInfinity);
  CHECK_FALSE(ulps(tensor(plain).first(), nullptr));

  const Column ours = tensor(plain);
  const Column other = tensor(R"("Max": "1.000001", "Min": "-1.0", "Mean": "0.0", "Norm": "4.0")");
  CHECK(ulps(ours.first(), &ours.first()) == 0);
  CHECK(ulps(ours.first(), &other.first()) == 0);  // the last shown decimal is no difference
  const Column nan = tensor(R"("Max": "nan", "Min": "-1.0")");
  CHECK(ulps(nan.first(), &ours.first()) == kInfinity);
  CHECK(ulps(nan.first(), &nan.first()) == 0);
  const Column shape(R"({"a": {"dtype": "torch.float32", "shape": "[2]", "Max": "1.0"}})");
  CHECK(ulps(ours.first(), &shape.first()) == kInfinity);
  const Column sum = tensor(plain + R"(, "md5": "12")");
  const Column sum_of_others = tensor(plain + R"(, "md5": "34")");
  CHECK(ulps(sum.first(), &sum.first()) == 0);
  CHECK(ulps(sum.first(), &sum_of_others.first()) == kInfinity);  // equal statistics, other elements
}

TEST_CASE("Values that are no tensors are equal or not") {
  const Column one(R"({"a": {"type": "int", "value": "1"}})");
  const Column two(R"({"a": {"type": "int", "value": "2"}})");
  CHECK(ulps(one.first(), &one.first()) == 0);
  CHECK(ulps(one.first(), &two.first()) == kInfinity);
  CHECK_FALSE(ulps(one.first(), nullptr));
  CHECK(ulps(Column(R"({"a": {"Result": "Different"}})").first(), nullptr) == kInfinity);
}

TEST_CASE("The golden cell is needed where the comparison left a doubt") {
  CHECK(needs_reference(tensor(R"("Max": "1")").first()));
  CHECK(needs_reference(tensor(R"("MaxAbsErr": "unsupported")").first()));
  CHECK_FALSE(needs_reference(tensor(R"("MaxAbsErr": "0")").first()));
  const std::string three = R"("Max diff": "0", "Min diff": "0", "Mean diff": "0", "L2norm diff": )";
  CHECK_FALSE(needs_reference(tensor(three + "\"0\"").first()));
  CHECK(needs_reference(tensor(three + "\"nan\"").first()));
}

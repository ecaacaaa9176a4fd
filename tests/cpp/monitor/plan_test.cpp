// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <memory>
#include <vector>

#include "catch.h"
#include "msprobe/error.h"
#include "msprobe/monitor.h"
#include "msprobe/monitor_plan.h"

using namespace msprobe;
using monitor::Frame;
using monitor::is_absent;
using monitor::Kind;
using monitor::Packed;
using monitor::Packing;
using monitor::Plan;
using monitor::Row;

namespace {

Row row_of(std::uint32_t label, double value) { return monitor::row_of_value(label, value, 1e-8); }

Row counts_of(std::uint32_t label, std::vector<double> counts) {
  Row row;
  row.label = label;
  row.kind = Kind::kCounts;
  row.counts = std::move(counts);
  return row;
}

// What processes do with what they have packed.
Packed all_reduce(const std::vector<Packed>& parts) {
  Packed whole = parts.front();
  for (std::size_t p = 1; p < parts.size(); ++p) {
    for (std::size_t i = 0; i < whole.summed.size(); ++i) whole.summed[i] += parts[p].summed[i];
    for (std::size_t i = 0; i < whole.largest.size(); ++i) {
      whole.largest[i] = std::max(whole.largest[i], parts[p].largest[i]);
    }
  }
  return whole;
}

}  // namespace

TEST_CASE("plan: what zeros do not define is no number, and a NaN stays one") {
  Plan plan;
  plan.add(0, Kind::kTensor, "kurtosis", 0);
  plan.add(1, Kind::kTensor, "kurtosis", 1);
  plan.add(2, Kind::kPair, "ratio", 2);
  plan.add(3, Kind::kPair, "ratio", 3);
  Frame frame;
  frame.add(row_of(0, 0));
  frame.add(row_of(1, NAN));
  Row pair;
  pair.kind = Kind::kPair;
  pair.label = 2;
  pair.sums.count = 1;
  pair.sums.absolute = 4;  // from 0 to 2
  frame.add(pair);
  pair.label = 3;
  pair.sums.squares = NAN;
  frame.add(pair);
  std::vector<double> values(4, 7.0);
  plan.evaluate(frame, values);
  CHECK(is_absent(values[0]));
  CHECK((std::isnan(values[1]) && !is_absent(values[1])));
  CHECK(is_absent(values[2]));
  CHECK((std::isnan(values[3]) && !is_absent(values[3])));
}

TEST_CASE("plan: rows and groups become the numbers of series") {
  Plan plan;
  plan.add(0, Kind::kTensor, "max", 2);
  plan.add(1, Kind::kTensor, "max", 0);
  plan.add_group({0, 1, 7}, Kind::kTensor, "norm", 3);
  plan.add_group({0, 1, 7}, Kind::kTensor, "numel", 4);
  plan.add_group({7}, Kind::kTensor, "norm", 5);
  Frame frame;
  frame.add(row_of(0, 3));
  frame.add(row_of(1, 4));
  std::vector<double> values;
  plan.evaluate(frame, values);
  REQUIRE(values.size() == 5);
  CHECK(values[2] == 3);
  CHECK(values[0] == 4);
  CHECK(is_absent(values[1]));
  CHECK(values[3] == 5);
  CHECK(values[4] == 2);
}

TEST_CASE("plan: rows of another kind and rows that are missing have no number") {
  Plan plan;
  plan.add(0, Kind::kPair, "cosine", 0);
  plan.add(1, Kind::kTensor, "max", 1);
  Frame frame;
  frame.add(row_of(0, 3));
  Row missing;
  missing.label = 1;
  missing.missing = true;
  frame.add(missing);
  std::vector<double> values{monitor::absent(), monitor::absent()};
  plan.evaluate(frame, values);
  CHECK(is_absent(values[0]));
  CHECK(is_absent(values[1]));
}

TEST_CASE("plan: metrics that are not there are refused") {
  Plan plan;
  CHECK_THROWS_AS(plan.add(0, Kind::kTensor, "cosine", 0), InvalidArgument);
  CHECK_THROWS_AS(plan.add_group({0}, Kind::kCounts, "norm", 0), InvalidArgument);
}

TEST_CASE("pack: what processes have in part becomes whole in each") {
  const Packing packing{{0, 1, 2, 3}, {3}, {4}};
  Frame first(Frame::Again::kMerges);
  first.add(row_of(0, 3));
  first.add(row_of(1, 5));
  first.add(counts_of(3, {1, 0, 2}));
  Frame second(Frame::Again::kMerges);
  second.add(row_of(0, -4));
  second.add(counts_of(3, {0, 7, 0, 1}));
  const Packed whole = all_reduce({pack(first, packing), pack(second, packing)});
  for (Frame* frame : {&first, &second}) {
    unpack(*frame, packing, whole);
    REQUIRE(frame->size() == 3);  // nobody has row 2
    const Row& row = frame->rows()[frame->position(0, -1)];
    CHECK(row.sums.squares == 25);
    CHECK(row.sums.min == -4);
    CHECK(row.sums.count == 2);
    CHECK(frame->rows()[frame->position(1, -1)].sums.max == 5);
    const Row& counts = frame->rows()[frame->position(3, -1)];
    CHECK(counts.kind == Kind::kCounts);
    CHECK(counts.counts == std::vector<double>{1, 7, 2, 1});
  }
}

TEST_CASE("pack: what another process has measured, too, counts once") {
  const Packing packing{{0, 3}, {3}, {2}};
  Packing with_left = packing;
  with_left.left = {3, 0};
  Frame first(Frame::Again::kMerges);
  Frame second(Frame::Again::kMerges);
  for (Frame* frame : {&first, &second}) {
    frame->add(row_of(0, 3));
    frame->add(counts_of(3, {1, 2}));
  }
  const Packed whole = all_reduce({pack(first, packing), pack(second, with_left)});
  unpack(second, with_left, whole);
  CHECK(second.rows()[second.position(0, -1)].sums.squares == 9);
  CHECK(second.rows()[second.position(0, -1)].sums.count == 1);
  CHECK(second.rows()[second.position(3, -1)].counts == std::vector<double>{1, 2});
}

TEST_CASE("pack: numbers of another packing are refused") {
  Frame frame;
  CHECK_THROWS_AS(unpack(frame, {{0}, {}, {}}, {}), InvalidArgument);
}

TEST_CASE("frame: later measurements are added where rows merge") {
  Frame frame(Frame::Again::kMerges);
  frame.add(row_of(0, 3));
  frame.add(row_of(0, 4));
  REQUIRE(frame.size() == 1);
  CHECK(frame.rows()[0].sums.squares == 25);
  frame.fill(0, row_of(0, 12).sums);
  CHECK(frame.rows()[0].sums.squares == 169);
  const std::vector<std::uint32_t> labels{0, 9};
  frame.scale(labels, 0.5);
  CHECK(frame.rows()[0].sums.squares == 169.0 / 4);
  CHECK(frame.rows()[0].sums.max == 6);
  CHECK(frame.rows()[0].sums.count == 3);
}

namespace {

// One row whose number comes when it is completed.
class LateRow final : public monitor::Pending {
 public:
  void bring() override {}
  void complete(Frame& frame) override {
    monitor::Sums sums;
    sums.count = 1;
    sums.sum = 6;
    sums.squares = 36;
    frame.fill(frame.position(2, -1), sums);
  }
};

}  // namespace

TEST_CASE("frame: rows that wait for their numbers are given away with them, and scaled when they come") {
  Frame frame(Frame::Again::kMerges);
  monitor::Row row;
  row.label = 2;
  frame.add(row);
  frame.pending([] { return std::make_unique<LateRow>(); });
  const std::vector<std::uint32_t> labels{2};
  frame.scale(labels, 0.5);
  const std::shared_ptr<Frame> taken = frame.take();
  CHECK(frame.size() == 0);
  CHECK(frame.is_complete());
  CHECK_FALSE(taken->is_complete());
  taken->bring();
  taken->complete();
  CHECK(taken->is_complete());
  CHECK(taken->rows().at(0).sums.sum == 3);
  CHECK(taken->rows().at(0).sums.squares == 9);
  CHECK(frame.position(2, -1) == Frame::npos);
}

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/known_values.h"

#include "catch.h"

using msprobe::compare::KnownValues;
using msprobe::metrics::Distance;
using msprobe::metrics::TensorFacts;

namespace {

TensorFacts facts(double min, double max, double norm, bool is_exact = true) {
  TensorFacts of;
  of.dtype = msprobe::DType::kFloat32;
  of.count = 12;
  of.min = min;
  of.max = max;
  of.norm = norm;
  of.is_exact = is_exact;
  return of;
}

Distance far_by(double high) {
  Distance distance;
  distance.high = high;
  return distance;
}

}  // namespace

TEST_CASE("known values: a tensor is found by its extremes and its norm") {
  KnownValues known;
  CHECK(known.empty());
  known.add(facts(-1.5, 2.25, 7.125), far_by(0.1));
  known.add(facts(-1.5, 2.25, 9.5), far_by(0.3));
  REQUIRE(known.find(facts(-1.5, 2.25, 7.125)) != nullptr);
  CHECK(known.find(facts(-1.5, 2.25, 7.125))->high == 0.1);
  CHECK(known.find(facts(-1.5, 2.25, 9.5 * (1 + 0x1p-24)))->high == 0.3);  // rounded to float32 in a file
  CHECK(known.find(facts(-1.5, 2.25, 9.5 * (1 + 3 * 0x1p-24)))->high == 0.3);
  CHECK(known.find(facts(-1.5, 2.25, 9.5 * (1 + 6 * 0x1p-24))) == nullptr);
  CHECK(known.find(facts(-1.5, 2.25, 8)) == nullptr);  // equal extremes, by chance
  CHECK(known.find(facts(-1.5, 2.3, 7.125)) == nullptr);
  CHECK(known.find(TensorFacts{}) == nullptr);
  TensorFacts longer = facts(-1.5, 2.25, 7.125);
  longer.count = 13;
  CHECK(known.find(longer) == nullptr);
}

TEST_CASE("known values: the norm of a sketch counts, as records of 16 bits round the other") {
  TensorFacts recorded = facts(-1.5, 2.25, 7.125);
  recorded.sketch.emplace().norm = 7.1875;
  KnownValues known;
  known.add(recorded, far_by(0.1));
  CHECK(known.find(facts(-1.5, 2.25, 7.1875)) != nullptr);
  CHECK(known.find(facts(-1.5, 2.25, 7.125)) == nullptr);
}

TEST_CASE("known values: where a norm is not known exactly the one that is farthest off counts") {
  KnownValues known;
  known.add(facts(-1.5, 2.25, 7.125), far_by(0.1));
  known.add(facts(-1.5, 2.25, 9.5), far_by(0.3));
  CHECK(known.find(facts(-1.5, 2.25, 7, false))->high == 0.3);
}

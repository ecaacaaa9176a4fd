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

TensorFacts times(TensorFacts of, double factor) {
  *of.min *= factor;
  *of.max *= factor;
  *of.norm *= factor;
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

TEST_CASE("known values: the scale of a loss is a power of two, clipping divides by any number") {
  KnownValues known;
  const TensorFacts gradient = facts(-1.5, 2.25, 7.125);
  known.add(times(gradient, 65536), far_by(0.1));
  CHECK(known.find(gradient) == nullptr);
  CHECK(known.find_scaled(gradient) != nullptr);
  const double factor = 0.2693043053150177;
  CHECK(known.find(times(gradient, factor)) == nullptr);
  REQUIRE(known.find_scaled(times(gradient, factor)) != nullptr);
  CHECK(known.find_scaled(times(gradient, factor))->high == 0.1);
  TensorFacts rounded = times(gradient, factor);
  *rounded.max *= 1 + 0x1p-24;
  CHECK(known.find_scaled(rounded) != nullptr);
  *rounded.norm *= 1.001;
  CHECK(known.find_scaled(rounded) == nullptr);
  CHECK(known.find_scaled(times(gradient, -factor)) == nullptr);
}

TEST_CASE("known values: two numbers are no shape, of three the third tells it") {
  KnownValues known;
  TensorFacts two = facts(-1.5, 2.25, 2.7), three = facts(-1.5, 2.25, 3);
  two.count = 2;
  three.count = 3;
  known.add(two, far_by(0.1));
  known.add(three, far_by(0.1));
  CHECK(known.find_scaled(times(two, 3)) == nullptr);
  CHECK(known.find_scaled(times(three, 3)) != nullptr);
}

TEST_CASE("known values: a single number has no scale of its own") {
  KnownValues known;
  TensorFacts one = facts(2, 2, 2);
  one.count = 1;
  known.add(one, far_by(0.1));
  CHECK(known.find(one) != nullptr);
  CHECK(known.find_scaled(times(one, 3)) == nullptr);
  known.add(facts(0, 0, 0), far_by(0));
  CHECK(known.find(facts(0, 0, 0))->high == 0);
}

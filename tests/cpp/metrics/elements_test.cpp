// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "catch.h"
#include "metrics/float_tensor.h"
#include "msprobe/error.h"
#include "msprobe/metrics.h"

using namespace msprobe;
using test::FloatTensor;
using test::kInf;
using test::kNaN;

TEST_CASE("outliers: the rule of allclose, also for what is not finite") {
  const FloatTensor target{{1, 1.01F, kInf, kInf, kNaN, 5, 0}};
  const FloatTensor reference{{1, 1, kInf, -kInf, kNaN, kInf, 0.001F}};
  const metrics::Outliers found = metrics::outliers(target.view(), reference.view(), 0.001, 0.0005, 2);
  CHECK(found.count == 5);
  REQUIRE(found.first.size() == 2);
  CHECK(found.first[0].index == 1);
  CHECK(found.first[0].target == 1.01F);
  CHECK(found.first[1].index == 3);
}

TEST_CASE("outliers: positions are those in C order, in tensors of any size") {
  FloatTensor target{std::vector<float>(10000, 1)};
  FloatTensor reference = target;
  reference.values[9001] = 2;
  const metrics::Outliers found = metrics::outliers(target.view(), reference.view(), 0, 0, 10);
  CHECK(found.count == 1);
  CHECK(found.first.at(0).index == 9001);
  CHECK_THROWS_AS(metrics::outliers(target.view(), FloatTensor{{1}}.view(), 0, 0, 1), InvalidArgument);
}

TEST_CASE("values: a part of a tensor with strides") {
  const FloatTensor columns{{0, 1, 2, 3, 4, 5}, {3, 2}, {1, 3}};
  CHECK(metrics::values(columns.view(), 1, 3) == std::vector<double>{3, 1, 4});
  CHECK(metrics::values(columns.view(), 4, 100) == std::vector<double>{2, 5});
  CHECK(metrics::values(columns.view(), 6, 1).empty());
  CHECK(metrics::values(columns.view(), -1, 1).empty());
}

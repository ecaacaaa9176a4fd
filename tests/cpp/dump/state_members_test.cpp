// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "catch.h"
#include "msprobe/dump.h"

using namespace msprobe;
using dump::state_members;

TEST_CASE("state members: statistics in their order, numbers as short as they can be read back") {
  stats::Summary summary;
  summary.min = -0.5;
  summary.max = 1e-7;
  summary.mean = 0.1;
  summary.norm = 3;
  summary.crc32 = 0xab;
  CHECK(state_members(summary) ==
        R"("crc32": "000000ab", "min": -0.5, "max": 1e-07, "mean": 0.1, "norm": 3.0)");
}

TEST_CASE("state members: what is absent, complex or not finite") {
  stats::Summary summary;
  CHECK(state_members(summary) == R"("min": null, "max": null, "mean": null, "norm": 0.0)");
  summary.mean = summary.norm = std::numeric_limits<double>::quiet_NaN();
  summary.max = std::numeric_limits<double>::infinity();
  summary.min = -std::numeric_limits<double>::infinity();
  summary.mean_imag = 2;
  summary.nan_count = 1;
  summary.pos_inf_count = 20;
  summary.neg_inf_count = 3;
  CHECK(state_members(summary) ==
        R"("min": -Infinity, "max": Infinity, "mean": NaN, "norm": NaN, "mean_imag": 2.0, )"
        R"("nan_count": 1, "pos_inf_count": 20, "neg_inf_count": 3)");
}

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/state_entry.h"

#include "catch.h"

using namespace msprobe::verdict;

TEST_CASE("number: one of more than six digits was computed, and is explained by what everything is off by") {
  const auto is_other_rate = [](double ours) { return !is_computed(Model(), ours, 0.0123456789, 1e-3); };
  CHECK_FALSE(is_other_rate(0.0123456789 * (1 + 1e-3)));
  CHECK(is_other_rate(0.0123456789 * 1.1));  // not explained
  CHECK(is_other_rate(0.012345));            // somebody wrote it
  // What is left of two numbers that somebody wrote, too: to 2.9e-11 of itself, as all six digits go.
  CHECK_FALSE(is_computed(Model(), 1 - 0.999999, 1.000123456e-6, 1e-3));
  const auto is_written = [](double off) {
    const double number = 0.25 * (1 + off);
    return !is_computed(Model(), number, 0.250000123, 1e-3);
  };
  CHECK(is_written(5e-11));
  CHECK_FALSE(is_written(6e-11));
  CHECK_FALSE(is_computed(Model::with({{"computed_number", 0}}), 0.0123456789, 0.0123456788, 1e-3));
}

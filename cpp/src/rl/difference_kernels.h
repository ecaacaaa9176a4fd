// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The inner loop of compare(), compiled for several instruction sets and chosen at run time.

#include <cstddef>
#include <cstdint>

#include "msprobe/rl.h"

namespace msprobe::rl {

/// Of some pairs; max_* are 0 where all are the same.
struct Counts {
  std::int64_t same = 0;
  std::int64_t within_thousandth = 0;
  std::int64_t within_hundredth = 0;
  std::int64_t within_tolerance = 0;
  double max_absolute = 0;
  double max_relative = 0;
};

/// Adds `count` pairs of contiguous memory of any alignment. Returns false, and adds nothing, when an element
/// or a difference is not finite.
bool add_finite(const float* reference, const float* target, std::size_t count, Tolerance tolerance,
                Counts& counts);
bool add_finite(const double* reference, const double* target, std::size_t count, Tolerance tolerance,
                Counts& counts);

}  // namespace msprobe::rl

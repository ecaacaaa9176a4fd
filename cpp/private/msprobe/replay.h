// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "msprobe/export.h"

/// What running a recorded call again needs beside the framework that runs it.
namespace msprobe::replay {

/// What a record says of the elements of a tensor. `min` and `max` are finite, min <= max.
struct Statistics {
  double min = 0;
  double max = 0;
  std::optional<double> mean;
  std::optional<double> norm;  // the square root of the sum of squares
};

/// Fills `out` with random numbers that have these statistics: the smallest number first, the largest last,
/// and between them numbers of a logistic-normal distribution on [min, max] whose sum and sum of squares are
/// such that mean and norm hold, to 1e-6 of the range as far as numbers of [min, max] can have them (a norm
/// that no such numbers have, because it was rounded, is met as closely as they can). Without a finite mean
/// and norm the numbers between are uniform.
///
/// One number alone is the mean, or without it `max`. The same for the same arguments, on every machine but
/// for the last bits that its exp() and log() decide. Throws InvalidArgument for bounds that are not finite
/// or not in order.
MSPROBE_API void draw(const Statistics& statistics, std::uint64_t seed, std::span<double> out);

}  // namespace msprobe::replay

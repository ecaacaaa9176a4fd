// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Where two trainings part: the first step at which a number of one leaves the noise of the other.
///
/// The noise of a series at a step is what its reference changes by from one recorded step to the next: its
/// band is `changes` times the change that nine in ten of the `window` changes before that step stay below
/// (of the first `window` ones at the beginning). A training in which batches alone differ stays inside.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "msprobe/export.h"
#include "msprobe/monitor_store.h"

namespace msprobe::monitor {

struct NoiseOptions {
  std::size_t window = 64;
  double changes = 2.5;       // about four standard deviations of normal noise
  double rounding = 1e-6;     // the band is at least so wide, as a share of the number
  std::size_t steps = 8;      // out of the band: at most of so many recorded steps that begin with the first
  double far = 8.0;           // or once by so many bands, or where one number is finite and the other not
  std::size_t behind = 2048;  // recorded steps that are looked at behind the first parting
};

/// A series of two stores.
struct SeriesPair {
  std::uint32_t reference = 0;
  std::uint32_t target = 0;
  bool has_noise = true;  // false: a setting, as the learning rate; its band is that of rounding
};

struct Parting {
  std::size_t pair = 0;  // its place in what was given
  std::int64_t step = 0;
  double reference = 0;
  double target = 0;
  double band = 0;  // half its width
};

struct Partings {
  /// By step; of each pair the first. In order of how many bands they are apart where steps are the same.
  std::vector<Parting> found;
  /// The first number that is not the same to the last bit, however little it differs.
  std::optional<Parting> first_difference;
  std::int64_t common_steps = 0;  // recorded in both, as far as was looked
};

/// Compares steps that both have, where both have a number. `progress` is told the share that is done, and
/// ends the work by returning false. Throws what StoreReader throws.
MSPROBE_API Partings find_partings(const StoreReader& reference, const StoreReader& target,
                                   std::span<const SeriesPair> pairs, const NoiseOptions& options = {},
                                   const std::function<bool(double)>& progress = {});

/// Half the width of the band of a series at some steps, which ascend; NaN where there is no noise known.
MSPROBE_API std::vector<double> noise_band(const StoreReader& reference, std::uint32_t series,
                                           std::span<const std::int64_t> steps,
                                           const NoiseOptions& options = {});

}  // namespace msprobe::monitor

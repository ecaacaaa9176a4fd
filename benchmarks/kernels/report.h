// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace msprobe::bench {

/// One measured case. Times are medians, in nanoseconds of one call.
struct Result {
  std::string dtype;
  std::size_t bytes;
  unsigned threads;
  std::string options;
  std::string where;  // "same" tensor over and over, or "fresh" ones from memory
  double ours_ns;
  double plain_ns;                     // reading the same bytes
  double speed;                        // median of the paired ratios plain / ours: 1 is as fast as reading
  std::optional<double> speed_of_sum;  // the same against a sum of the elements, where that is another thing
};

struct Machine {
  unsigned cores;
  std::string instruction_set;  // of summarize()
  unsigned plain_vector_bytes;
};

std::string to_json(const Machine& machine, const std::vector<Result>& results);

/// A table of dtype x size for each option and number of threads; cells are `speed`, and nanoseconds a call
/// below 64 KiB.
std::string to_markdown(const Machine& machine, const std::vector<Result>& results);

}  // namespace msprobe::bench

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How the measurements of a step become the numbers of series: decided once, carried out at every step.

#include <cstdint>
#include <span>
#include <vector>

#include "msprobe/export.h"
#include "msprobe/monitor_frame.h"

namespace msprobe::monitor {

/// Not thread-safe.
class MSPROBE_API Plan {
 public:
  /// Series `series` is `metric` of the row with this label. Throws InvalidArgument where there is no such
  /// metric.
  void add(std::uint32_t label, Kind kind, std::string_view metric, std::uint32_t series);

  /// Series `series` is `metric` of all rows with these labels taken together, as of the parameters of a
  /// layer.
  void add_group(std::vector<std::uint32_t> labels, Kind kind, std::string_view metric, std::uint32_t series);

  /// The numbers of a frame, by series: `values` is as long as it was, or long enough, and what the frame has
  /// no row for stays as it was. What is not defined though all that was measured is finite, as the ratio to
  /// zero, is absent().
  void evaluate(const Frame& frame, std::vector<double>& values) const;

 private:
  struct Number {
    const Metric* metric;
    std::uint32_t series;
  };
  struct Group {
    std::vector<std::uint32_t> labels;
    Kind kind;
    std::vector<Number> numbers;
  };

  std::vector<std::vector<Number>> of_label_;
  std::vector<Group> groups_;
};

// ---- one value for many processes

/// Rows of the frame with these labels as numbers that processes can add up and take the largest of, one
/// after the other; neutral where there is no row. Counts follow behind, `counts` of them for each label in
/// `counted`.
struct Packed {
  std::vector<double> summed;
  std::vector<double> largest;
};
struct Packing {
  std::vector<std::uint32_t> labels;
  /// Of rows that hold counts: their labels, and how many counts each has in any process.
  std::vector<std::uint32_t> counted;
  std::vector<std::size_t> counts;
  /// Labels of rows that this process leaves to another one, which has measured the same.
  std::vector<std::uint32_t> left = {};
};
MSPROBE_API Packed pack(const Frame& frame, const Packing& packing);
/// Puts merged numbers back: rows that this process does not have appear, and rows that no process has do
/// not. Throws InvalidArgument for numbers of another packing.
MSPROBE_API void unpack(Frame& frame, const Packing& packing, const Packed& packed);

}  // namespace msprobe::monitor

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How two items of two traces differ: their statistics, the elements of their tensors, and how far apart
/// they are.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "msprobe/export.h"
#include "msprobe/metrics.h"
#include "msprobe/trace.h"
#include "msprobe/trace_reader.h"

namespace msprobe::trace {

/// The mode both dumps allow. Throws InvalidArgument that names both files when their tasks differ or are
/// none of these, or only one of them has checksums.
MSPROBE_API Mode common_mode(const Trace& target, const Trace& reference);

/// One number of a real-data comparison, or the text that stands for it.
struct Metric {
  enum class State : std::uint8_t { kNumber, kNan, kUnsupported, kNotApplicable, kShapeUnmatched };
  double value = 0;
  State state = State::kUnsupported;

  std::optional<double> number() const noexcept {
    return state == State::kNumber ? std::optional(value) : std::nullopt;
  }
};

/// What the elements of two tensors say (docs/formats/compare.md, "Real data").
struct RealMetrics {
  Metric cosine;
  Metric euclidean;
  Metric max_absolute;
  Metric max_relative;
  Metric one_thousandth;      // share of the elements with a relative error below 0.001
  Metric five_thousandths;    // below 0.005
  std::string message;        // why something could not be computed; empty: all was
  std::string_view accuracy;  // "Yes", "No", "None", "Unmatched"
};

/// Difference of one statistic, target minus reference, and relative to the reference.
struct StatisticDifference {
  /// kNumber: both are numbers; kNan: one is NaN or both are the same infinity; kNotApplicable: one is no
  /// number.
  Metric difference;
  /// |difference / reference|; absent where `difference` is no number or the reference is 0.
  std::optional<double> relative;
};

/// Max, min, mean and norm; nothing: it is no number.
using StatisticNumbers = std::array<std::optional<double>, 4>;

/// The statistics of two items: as in the files, as numbers, and their differences.
struct StatisticsPair {
  std::array<Scalar, 4> target, reference;
  StatisticNumbers target_numbers, reference_numbers;
  std::array<StatisticDifference, 4> differences;
};

/// Target minus reference.
MSPROBE_API std::array<StatisticDifference, 4> subtract(const StatisticNumbers& target,
                                                        const StatisticNumbers& reference);

/// `reference`: null where there is no counterpart. A scalar has its value in all four.
MSPROBE_API StatisticsPair compare_statistics(const Trace& target_trace, const Item& target,
                                              const Trace& reference_trace, const Item* reference);

/// Compares the elements of two tensors, read from the files in dump_tensor_data beside the two dump.json. A
/// file that is missing, damaged or no tensor gives a message. `is_exact`: the items were paired by their
/// names; else the message says that they were not.
MSPROBE_API RealMetrics compare_real_data(const Trace& target_trace, const Item& target,
                                          const Trace& reference_trace, const Item* reference, bool is_exact);

using metrics::Distance;

/// What a record says of a tensor. The checksum refers to the trace.
MSPROBE_API metrics::TensorFacts facts_of(const Trace& trace, const Item& item);

/// The distance between an item and its counterpart. Infinite without a counterpart (null), and for values
/// that are no floating point numbers and differ. `metrics`: null unless the elements were compared. `floor`:
/// elements are measured against this size at least.
MSPROBE_API Distance distance(const Trace& target_trace, const Item& target, const Trace& reference_trace,
                              const Item* reference, const RealMetrics* metrics, double floor = 0);

/// The dtype that a file names: "torch.float32", "float32", "Float32"; nothing for another.
MSPROBE_API std::optional<DType> dtype_of(std::string_view text);

/// Number of elements, from the text of a shape: 6 of "[2, 3]".
MSPROBE_API double element_count(std::string_view shape);

/// A relative distance in rounding errors of a dtype, machine epsilons: what tables and pages show. Infinite
/// for a distance between what does not round.
MSPROBE_API double in_roundings(double relative, std::optional<DType> dtype) noexcept;

}  // namespace msprobe::trace

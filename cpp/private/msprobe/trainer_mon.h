// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The files of mindstudio-probe's TrainerMon, and its rules, which look at the numbers of a training as they
/// come.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "msprobe/export.h"
#include "msprobe/monitor_frame.h"

namespace msprobe::monitor {

// ---- files

struct CsvOptions {
  std::vector<std::string> ops;  // columns: names of metrics of tensors, "id", "shape" or "dtype"
  int digits = 6;                // numbers are rounded to so many decimals
  bool micro_steps = false;      // a column micro_step
  bool qualifies_dtypes = true;  // "torch.float32"; else "Float32", as MindSpore calls it
};

/// The value of a column of numbers; NaN where the row has none. `op`: the name of a metric of tensors, or
/// "id", the value of a tensor without dimensions. Throws InvalidArgument for another name.
MSPROBE_API double scalar(const Row& row, std::string_view op);

/// "vpp_stage,name,step,...\n"
MSPROBE_API std::string csv_header(const CsvOptions& options);
/// The rows of a step, one line each. Throws InvalidArgument for a label that is not among `labels`.
MSPROBE_API std::string csv_rows(std::span<const Row> rows, const Labels& labels, std::int64_t step,
                                 const CsvOptions& options);

// ---- rules

struct AlertRule {
  enum class Kind : std::uint8_t {
    kTurbulence,  // |x| > mean * (1 + threshold); only of "norm" and "mean"
    kNan,         // x is NaN, or |x| > threshold where there is one
  };
  Kind kind;
  std::optional<double> threshold;
};

/// A number that one of them reports.
struct Alert {
  std::size_t row;   // in the frame
  std::size_t op;    // in the list of ops
  std::size_t rule;  // in the list of rules
  double value;
  double mean;  // exponential mean of |x| before this value; NaN: there is none
};

/// The rules tried in their order on every number; the first one that applies is reported. A turbulence of a
/// number other than norm or mean is not reported, and hides later rules. Rows that are missing are passed
/// by, and a number that is not finite does not enter the mean.
class MSPROBE_API Alerts {
 public:
  /// Throws InvalidArgument for an op that is no number.
  Alerts(std::vector<AlertRule> rules, std::vector<std::string> ops);

  std::vector<Alert> check(const Frame& frame);

 private:
  using Key = std::tuple<std::uint32_t, std::int32_t, std::size_t>;  // label, micro step, op

  std::vector<AlertRule> rules_;
  std::vector<std::string> ops_;
  std::map<Key, double> means_;
};

}  // namespace msprobe::monitor

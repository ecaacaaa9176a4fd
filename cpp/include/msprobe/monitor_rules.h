// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Rules that look at the numbers of a training as they come: those of the monitor, and those of the existing
/// tool.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "msprobe/export.h"
#include "msprobe/monitor.h"

namespace msprobe::monitor {

// ---- the rules of the monitor

/// A rule over series. Numbers are looked at on a scale of logarithms, where the noise of a training is about
/// the same at any size; a number of 0 is passed by.
struct Rule {
  enum class Kind : std::uint8_t {
    /// NaN or an infinity, where the number before was finite.
    kNonFinite,
    /// |x| > threshold; below it with `falling`.
    kLimit,
    /// Far from the recent past: the logarithm is `threshold` standard deviations above its exponential mean,
    /// and
    /// |x| is at least `ratio` times that.
    kSpike,
    /// Leaves its own trend for good. The trend is a straight line over the logarithm of the steps, as
    /// healthy
    /// trainings slow down; what lies above it is added up (CUSUM: Page 1954), less `slack` standard
    /// deviations
    /// each time, until it comes to `threshold`, and |x| is at least `ratio` times the trend.
    kDrift,
    /// |x| > exponential mean of |x| * (1 + threshold), as AnomalyTurbulence of mindstudio-probe has it.
    kTurbulence,
  };
  Kind kind = Kind::kNonFinite;
  std::string name;                 // as alarms have it
  std::vector<std::string> series;  // patterns with * and ?, of which the key of a series matches one
  double threshold = 0;
  double ratio = 1;
  double slack = 1;
  bool falling = false;         // looks for numbers that are too small instead
  std::int64_t warm_up = 0;     // numbers of a series that are seen before any is judged
  std::int64_t window = 100;    // numbers that the exponential mean looks back
  std::int64_t cooldown = 100;  // steps in which a series is not reported again
};

/// The rules that are tried without any wish: quiet on healthy trainings (docs/monitor.md has the table).
MSPROBE_API std::vector<Rule> default_rules();

/// A number that a rule reports.
struct Alarm {
  std::int64_t step = 0;
  std::uint32_t series = 0;
  std::size_t rule = 0;
  double value = 0;
  double expected = 0;  // what the rule would have thought normal; NaN: it thinks of none
  double score = 0;     // how far beyond its limit, 1 at the limit
};

/// Watches series. Not thread-safe.
class MSPROBE_API Rules {
 public:
  /// Throws InvalidArgument for a rule that makes no sense.
  explicit Rules(std::vector<Rule> rules);
  ~Rules();
  Rules(const Rules&) = delete;
  Rules& operator=(const Rules&) = delete;

  const std::vector<Rule>& rules() const noexcept { return rules_; }

  /// Series must come in the order of their numbers, from 0 on.
  void add_series(const std::string& key);

  /// The numbers of a step by series, those that are absent passed by. The alarms, the most urgent first.
  std::vector<Alarm> check(std::int64_t step, std::span<const double> values);

 private:
  struct State;
  std::vector<Rule> rules_;
  std::vector<std::vector<State>> states_;  // of each series, one for each rule that watches it
};

// ---- the rules of mindstudio-probe

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

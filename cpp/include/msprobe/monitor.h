// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The monitor: numbers of a training at every step, kept in a file, watched by rules, and where two
/// trainings diverge. Programs of libtorch have ProgramMonitor (msprobe/torch_program_monitor.h), which
/// measures, too.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "msprobe/export.h"

namespace msprobe::monitor {

// ---- the file
//
// The numbers of a training on disk, step by step: a SQLite file (docs/formats/monitor_store.md). Long runs
// stay fast: beside every number the file has what 32 and 1024 steps have in common.

/// One number of a training at every recorded step.
struct Series {
  std::string quantity;     // what is measured: "gradient", "weight", "loss", ...
  std::string metric;       // which number of it: "norm", "kurtosis", ...; "" where there is only one
  std::string name;         // of the parameter, module or layer; "" for the whole model
  std::string scope;        // "parameter", "module", "layer" or "model"
  std::int64_t layer = -1;  // its place among the layers of the model; -1: it has none
  std::string unit;         // "" for that of the tensor's elements

  /// "gradient.norm/layers.0.fc.weight": no other series of a file has it.
  MSPROBE_API std::string key() const;
};

/// Stands where a series has no number at a step, which is not the same as a NaN that was measured.
MSPROBE_API double absent() noexcept;
MSPROBE_API bool is_absent(double value) noexcept;

/// Appends steps. A thread of its own writes; append() only waits while `queue_bytes` are waiting for the
/// disk. A step that has been written is whole, whatever ends the process. What cannot be written, on a full
/// disk, waits in memory and is tried again, up to `queue_bytes`; beyond it the oldest steps are lost. A
/// failure is logged once. In a forked child nothing is written.
///
/// Not thread-safe, but for add_series().
class MSPROBE_API StoreWriter {
 public:
  struct Options {
    /// Steps from here on are removed before the first is appended: a training that goes on from a checkpoint
    /// has no step twice. Nothing: the file must not exist.
    std::optional<std::int64_t> resume_at = std::nullopt;
    std::size_t queue_bytes = std::size_t{64} << 20;
    std::map<std::string, std::string> info = {};  // what is to be known of the run, by name
  };

  /// Throws IoError, FormatError when the file is no store, and InvalidArgument when it exists although
  /// nothing is resumed.
  explicit StoreWriter(std::filesystem::path path, Options options);
  ~StoreWriter();
  StoreWriter(const StoreWriter&) = delete;
  StoreWriter& operator=(const StoreWriter&) = delete;

  /// The number of a series; one that the file has already keeps its number.
  std::uint32_t add_series(const Series& series);

  /// The numbers of a step, by the number of the series; those behind the end of `values` are absent. Steps
  /// must ascend: throws InvalidArgument.
  void append(std::int64_t step, std::span<const double> values);

  /// Waits until everything is on disk, or cannot be written. Returns how many steps could not.
  std::int64_t flush();

  /// The last step that was appended, also by an earlier process; nothing: there is none.
  std::optional<std::int64_t> last_step() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Some steps of a series that follow each other, as one point of a curve.
struct Bucket {
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;
  double min = 0;  // of the numbers that are finite; NaN: there is none
  double max = 0;
  double mean = 0;
  std::uint32_t count = 0;  // numbers that are finite
  std::uint32_t bad = 0;    // NaN and infinities

  bool operator==(const Bucket&) const = default;
};

/// Reads a store, also while another process appends to it.
///
/// Thread-safe: calls take turns. All throw IoError, and FormatError for a file that is no store or is
/// damaged.
class MSPROBE_API StoreReader {
 public:
  /// shift: added to every step that is read; of a training that was resumed, where it began.
  explicit StoreReader(std::filesystem::path path, std::int64_t shift = 0);
  ~StoreReader();
  StoreReader(const StoreReader&) = delete;
  StoreReader& operator=(const StoreReader&) = delete;

  const std::filesystem::path& path() const noexcept;
  std::map<std::string, std::string> info() const;
  std::vector<Series> series() const;

  struct Extent {
    std::int64_t steps = 0;  // how many are recorded
    std::int64_t first = 0;
    std::int64_t last = 0;
  };
  Extent extent() const;

  /// A series from `first` to `last` in at most `points` points; a point for every step where they are few
  /// enough. Steps at which it has no number have no point.
  std::vector<Bucket> curve(std::uint32_t series, std::int64_t first, std::int64_t last,
                            std::size_t points) const;

  /// Several series, each as curve() has it: what a page needs at once.
  std::vector<std::vector<Bucket>> curves(std::span<const std::uint32_t> series, std::int64_t first,
                                          std::int64_t last, std::size_t points) const;

  struct Values {
    std::vector<std::int64_t> steps;
    std::vector<std::vector<double>>
        numbers;  // of each series one for each step; absent() where there is none
  };
  /// Every number of some series.
  Values values(std::span<const std::uint32_t> series, std::int64_t first, std::int64_t last) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// ---- rules
//
// Rules that look at the numbers of a training as they come, and raise alarms.

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

// ---- where two trainings diverge
//
// Where two trainings diverge: the first step at which a number of one leaves the noise of the other.
//
// The noise of a series at a step is what its reference changes by from one recorded step to the next: its
// band is `changes` times the change that nine in ten of the `window` changes before that step stay below
// (of the first `window` ones at the beginning). A training in which batches alone differ stays inside.
//
// A share of elements beyond a threshold, as of zeros, is a count: rounding decides of the elements that
// stand at the threshold. The band is at least `counts` standard deviations of a Poisson count of as many
// elements.
//
// A weight or a moment is rounded by each step and keeps it: two runs go apart as random walks do whose steps
// are roundings. The band is at least `counts` standard deviations of that, too.

struct NoiseOptions {
  std::size_t window = 64;
  double changes = 2.5;       // about four standard deviations of normal noise
  double rounding = 1e-6;     // the band is at least so wide, as a share of the number
  double counts = 4;          // standard deviations of counts and roundings, as `changes` are of normal noise
  std::size_t steps = 8;      // out of the band: at most of so many recorded steps that begin with the first
  double far = 8.0;           // or once by so many bands, or where one number is finite and the other not
  std::size_t behind = 2048;  // recorded steps that are looked at behind the first parting
};

/// A series of two stores.
struct SeriesPair {
  std::uint32_t reference = 0;
  std::uint32_t target = 0;
  bool has_noise = true;  // false: a setting, as the learning rate; its band is that of rounding
  bool is_count = false;  // a whole number of elements over their number
  double kept = 0;        // most that the rounding of one step changes for good, as a share of the number
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

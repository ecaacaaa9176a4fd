// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The numbers of a training on disk, step by step: a SQLite file (docs/formats/monitor_store.md). Long runs
/// stay fast: beside every number the file has what 32 and 1024 steps have in common.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "msprobe/export.h"

namespace msprobe::monitor {

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
  explicit StoreReader(std::filesystem::path path);
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

}  // namespace msprobe::monitor

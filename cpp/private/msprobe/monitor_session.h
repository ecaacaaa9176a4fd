// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What the monitor measures, and the session that holds the rows of a step, makes series of them, keeps
/// these and watches them: once for every adapter (the monitor of Python, ProgramMonitor, TrainerMon, which
/// writes the rows themselves).

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "msprobe/export.h"
#include "msprobe/monitor.h"
#include "msprobe/monitor_frame.h"
#include "msprobe/monitor_plan.h"

namespace msprobe::monitor {

// ---- what is measured

/// The rows of quantities(), in their order.
enum class Measured : std::uint8_t {
  kLoss,
  kLearningRate,
  kLossScale,
  kCustom,
  kStepSeconds,
  kGradient,
  kWeight,
  kMoment,
  kSecondMoment,
  kUpdate,
  kGradientMoment,
  kGradientChange,
  kActivation,
  kActivationGradient,
  kAttentionLogit,
  kAttentionEntropy,
  kExpertLoad,
  kRouterProbability,
  kRouterEntropy,
  kCommunication,
  kUnreducedGradient,
  kWeightBefore,
  kMatrix,
};

/// One thing that is measured. Adding one is a row of the table, and where it is measured a place that adds
/// rows of its kind to a frame.
struct Quantity {
  std::string_view name;
  std::string_view group;    // the word of the configuration that asks for it; "": TrainerMon's alone
  std::optional<Kind> kind;  // of its rows; nothing: it is a number by itself
  std::string_view meaning;
  std::vector<std::string_view> metrics;  // by default; "" where it has only one number
  std::string_view cost;
  std::string_view source = "";  // where the idea is from; "" for what needs none
  std::string_view scope = "parameter";
};
MSPROBE_API std::span<const Quantity> quantities();
MSPROBE_API const Quantity& quantity(Measured which);
/// Throws InvalidArgument where there is none.
MSPROBE_API Measured measured_named(std::string_view name);
/// "" for that of the tensor's elements.
MSPROBE_API std::string_view unit_of(const Quantity& of, std::string_view metric);
/// Those of `wanted` that the quantity can have; its own without a wish.
MSPROBE_API std::vector<std::string_view> chosen_metrics(const Quantity& of,
                                                         std::span<const std::string> wanted);

/// "model.layers.3.mlp.weight" -> ("model.layers.3", 3); nothing: it lies in no numbered layer.
MSPROBE_API std::optional<std::pair<std::string, std::int64_t>> layer_of(std::string_view name);

// ---- the files of a record that goes on

/// Of a file of alarms: a training that goes on at step `start` writes the alarms from there on anew; at step
/// 0 the file is kept under another name. Throws IoError.
MSPROBE_API void continue_alarms(const std::filesystem::path& path, std::int64_t start);

// ---- a session

/// The end of an earlier record, which rules look at as if they had been there.
struct Past {
  std::vector<Series> series;
  StoreReader::Values values;
};

/// The record of one training in this process. Not thread-safe.
class MSPROBE_API Session {
 public:
  struct Options {
    std::vector<std::string> metrics = {};  // empty: those of the table
    std::vector<std::string> levels = {"parameter", "layer", "model"};
    std::vector<Rule> rules = {};
    std::int64_t every = 1;  // steps of which one is recorded
    /// Each quantity has a frame of its own, where the last of several rows of a label stays; else all are in
    /// one, where they are merged.
    bool apart = false;
  };

  /// Without open() nothing is kept, and the rules watch all the same. Throws InvalidArgument for a metric or
  /// a level that there is not, and for rules that make no sense.
  explicit Session(Options options);

  /// Keeps what append() is given in this file, which is made with its folder. With `start` above 0 a record
  /// in it goes on: what it has from there on is replaced, and the rules see its end. At step 0 an earlier
  /// one is kept under another name. Throws IoError and FormatError.
  void open(const std::filesystem::path& path, std::int64_t start, std::map<std::string, std::string> info);
  /// Of the record that goes on; nothing: there is none, or it cannot be read.
  const std::optional<Past>& past() const noexcept { return past_; }
  /// Knows the series of another process' record by their numbers there, and shows its end to the rules.
  void learn(const Past& past);

  // ---- rows of the step; what is measured may outlive the session

  /// What rows are about; the group of a label that becomes series is the place of its quantity.
  const std::shared_ptr<Labels>& labels() const noexcept { return labels_; }
  /// The label of rows about a parameter, module or collective.
  std::uint32_t label(Measured of, const std::string& name);
  const std::shared_ptr<CallCounter>& calls() const noexcept { return calls_; }
  /// Where rows of this quantity are put.
  const std::shared_ptr<Frame>& frame(Measured of);
  /// Gives away the rows that are in one frame, and begins a step; rows with numbers to come complete later.
  std::shared_ptr<Frame> take_rows();
  /// Forgets all rows, and begins a step.
  void drop_rows();

  // ---- series

  /// A number of the step that is no row.
  void set(Measured of, std::string_view metric, const std::string& name, double value);
  /// Turns a frame into numbers of the step. New labels become series.
  void evaluate(const Frame& frame);
  /// The numbers of the step by series, and the keys of these.
  const std::vector<double>& numbers();
  const std::vector<std::string>& keys() const noexcept { return keys_; }

  /// Writes the numbers of the step into the file. Steps must ascend.
  void append(std::int64_t step);
  /// What the rules say of them, the most urgent first; once for each step.
  std::vector<Alarm> check(std::int64_t step);
  const std::vector<Rule>& rules() const noexcept { return rules_.rules(); }
  /// Forgets the numbers of the step.
  void clear();
  /// Waits until everything is on disk. Returns how many steps are lost.
  std::int64_t flush();

 private:
  struct Group {
    Measured of;
    std::string scope;
    std::string name;
    auto operator<=>(const Group&) const = default;
  };

  void add_labels();
  void add_row(std::uint32_t label, Measured of, const std::string& name);
  std::uint32_t add_series(const Series& series);
  std::uint32_t number_of(const Quantity& of, std::string_view metric, const std::string& name,
                          std::string_view scope, std::int64_t layer);
  void add_member(Group group, std::uint32_t label);
  void add_groups();
  bool has_level(std::string_view level) const;
  void read_past(const std::filesystem::path& path);

  Options options_;
  Rules rules_;
  std::unique_ptr<StoreWriter> store_;
  std::optional<Past> past_;
  std::unordered_map<std::string, std::uint32_t> series_;  // numbers by key
  std::vector<std::string> keys_;                          // by number
  std::vector<double> numbers_;
  Plan plan_;
  std::shared_ptr<Labels> labels_ = std::make_shared<Labels>();
  std::shared_ptr<CallCounter> calls_ = std::make_shared<CallCounter>();
  std::map<Measured, std::shared_ptr<Frame>> frames_;                // of the first quantity alone: of all
  std::map<std::pair<Measured, std::string>, std::uint32_t> named_;  // labels that this session has made
  std::uint32_t known_ = 0;                                          // labels that are series
  std::map<Group, std::size_t> new_groups_;                          // places in new_members_
  std::vector<std::pair<Group, std::vector<std::uint32_t>>> new_members_;  // of layers and the model
};

}  // namespace msprobe::monitor

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/monitor.h"
#include "msprobe/monitor_frame.h"
#include "msprobe/monitor_plan.h"
#include "torch/program_monitor_record.h"

namespace msprobe::torch_adapter {

/// What ProgramMonitor measures of tensors, in the order of their table.
enum class ProgramQuantity : std::uint8_t {
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
  kCount,
};

/// Whether one of the patterns is the name, its beginning up to a dot, or matches it with * and ?; no
/// patterns: any name is wanted.
bool is_wanted_name(const std::string& name, const std::vector<std::string>& patterns);

/// "layers.3.mlp.weight" -> ("layers.3", 3); nothing: it lies in no numbered layer.
std::optional<std::pair<std::string, std::int64_t>> layer_of_name(const std::string& name);

/// The series of a record, and which row of a frame is which: the names, metrics and units of Python.
class ProgramSeries {
 public:
  /// Throws InvalidArgument for a metric or a level that there is not.
  ProgramSeries(ProgramRecord& record, std::vector<std::string> metrics, std::vector<std::string> levels);

  /// Of the row of a parameter, module or collective; a new one becomes series.
  std::uint32_t label(ProgramQuantity of, const std::string& name);
  using Named = std::pair<ProgramQuantity, std::string>;
  const std::vector<Named>& labels() const noexcept { return names_; }

  /// What is no row: a number of its own. `quantity`: "loss", "matrix", ...
  std::uint32_t number_of(std::string_view quantity, std::string_view metric = "",
                          const std::string& name = "", std::string_view scope = "model",
                          std::int64_t layer = -1);

  /// The numbers of a frame, by series.
  std::vector<double> evaluate(const monitor::Frame& frame);

  std::vector<std::string_view> metrics_of(ProgramQuantity of) const;

 private:
  bool has_level(std::string_view level) const;
  void add_groups();

  ProgramRecord& record_;
  std::vector<std::string> metrics_;
  std::vector<std::string> levels_;
  std::map<Named, std::uint32_t> labels_;
  std::vector<Named> names_;  // by label
  monitor::Plan plan_;
  struct Group {
    ProgramQuantity of;
    std::string scope;
    std::string name;
    auto operator<=>(const Group&) const = default;
  };
  std::map<Group, std::vector<std::uint32_t>> new_members_;  // of layers and the model
};

}  // namespace msprobe::torch_adapter

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "torch/program_monitor_series.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "msprobe/error.h"

namespace msprobe::torch_adapter {
namespace {

using monitor::Kind;

struct QuantityOfProgram {
  std::string_view name;
  Kind kind;
  bool of_parameters;
  std::vector<std::string_view> metrics;
};

// As python/msprobe/monitoring/quantities.py has them.
const std::vector<QuantityOfProgram>& quantities_of_program() {
  static const std::vector<QuantityOfProgram> all{
      {"gradient", Kind::kTensor, true, {"norm", "abs_max", "kurtosis", "zeros", "nonfinite"}},
      {"weight", Kind::kTensor, true, {"norm", "abs_max", "kurtosis"}},
      {"moment", Kind::kTensor, true, {"norm"}},
      {"second_moment", Kind::kTensor, true, {"norm", "abs_max"}},
      {"update", Kind::kPair, true, {"distance", "ratio"}},
      {"gradient_moment", Kind::kPair, true, {"agreement", "cosine"}},
      {"gradient_change", Kind::kPair, true, {"cosine"}},
      {"activation", Kind::kTensor, false, {"rms", "abs_max", "kurtosis", "zeros", "nonfinite"}},
      {"activation_gradient", Kind::kTensor, false, {"rms", "abs_max", "nonfinite"}},
      {"attention_logit", Kind::kTensor, false, {"max", "mean"}},
      {"attention_entropy", Kind::kTensor, false, {"mean", "min"}},
      {"expert_load",
       Kind::kCounts,
       false,
       {"largest", "smallest", "p10", "median", "p90", "dead", "dropped", "entropy"}},
      {"router_probability", Kind::kTensor, false, {"mean", "min"}},
      {"router_entropy", Kind::kTensor, false, {"mean"}},
      {"communication", Kind::kTensor, false, {"norm", "abs_max", "nonfinite", "numel"}},
  };
  return all;
}

const QuantityOfProgram& row_of_quantity(ProgramQuantity of) {
  return quantities_of_program()[static_cast<std::size_t>(of)];
}

std::string unit_of_number(std::string_view quantity, std::string_view metric) {
  if (quantity == "step_seconds") return "s";
  if (quantity == "attention_entropy" || quantity == "router_entropy") return "nats";
  for (const QuantityOfProgram& one : quantities_of_program()) {
    if (one.name != quantity) continue;
    if (const monitor::Metric* found = monitor::find_metric(one.kind, metric))
      return std::string(found->unit);
  }
  return "";
}

void check_metrics_of_program(const std::vector<std::string>& wanted) {
  for (const std::string& name : wanted) {
    const auto all = monitor::metrics();
    if (std::none_of(all.begin(), all.end(), [&](const auto& one) { return one.name == name; })) {
      throw InvalidArgument("ProgramMonitor: metrics: there is no metric \"" + name + "\"");
    }
  }
}

void check_levels_of_program(const std::vector<std::string>& wanted) {
  for (const std::string& level : wanted) {
    if (level != "parameter" && level != "layer" && level != "model") {
      throw InvalidArgument("ProgramMonitor: levels: expected parameter, layer or model, found \"" + level +
                            "\"");
    }
  }
}

}  // namespace

bool is_wanted_name(const std::string& name, const std::vector<std::string>& patterns) {
  return patterns.empty() || std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
           return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0 || name.starts_with(pattern + ".");
         });
}

std::optional<std::pair<std::string, std::int64_t>> layer_of_name(const std::string& name) {
  std::size_t begin = name.find('.') + 1;
  while (begin != 0) {
    const std::size_t end = name.find('.', begin);
    if (end == std::string::npos) break;
    const std::string part = name.substr(begin, end - begin);
    if (!part.empty() && part.size() < 10 &&
        std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c) != 0; })) {
      return std::pair(name.substr(0, end), std::stoll(part));
    }
    begin = end + 1;
  }
  return std::nullopt;
}

ProgramSeries::ProgramSeries(ProgramRecord& record, std::vector<std::string> metrics,
                             std::vector<std::string> levels)
    : record_(record), metrics_(std::move(metrics)), levels_(std::move(levels)) {
  check_metrics_of_program(metrics_);
  check_levels_of_program(levels_);
}

bool ProgramSeries::has_level(std::string_view level) const {
  return std::find(levels_.begin(), levels_.end(), level) != levels_.end();
}

std::vector<std::string_view> ProgramSeries::metrics_of(ProgramQuantity of) const {
  const QuantityOfProgram& row = row_of_quantity(of);
  if (metrics_.empty()) return row.metrics;
  std::vector<std::string_view> chosen;
  for (const std::string& name : metrics_) {
    if (const monitor::Metric* one = monitor::find_metric(row.kind, name)) chosen.push_back(one->name);
  }
  // A list that is about tensors says nothing about pairs and counts.
  return chosen.empty() && row.kind != Kind::kTensor ? row.metrics : chosen;
}

std::uint32_t ProgramSeries::number_of(std::string_view quantity, std::string_view metric,
                                       const std::string& name, std::string_view scope, std::int64_t layer) {
  return record_.add_series({std::string(quantity), std::string(metric), name, std::string(scope), layer,
                             unit_of_number(quantity, metric)});
}

std::uint32_t ProgramSeries::label(ProgramQuantity of, const std::string& name) {
  const auto next = static_cast<std::uint32_t>(names_.size());
  const auto [found, is_new] = labels_.emplace(Named(of, name), next);
  if (!is_new) return found->second;
  names_.emplace_back(of, name);
  const QuantityOfProgram& row = row_of_quantity(of);
  const auto layer = layer_of_name(name);
  if (!row.of_parameters || has_level("parameter")) {
    const std::string_view scope = row.of_parameters ? "parameter" : "module";
    for (const std::string_view metric : metrics_of(of)) {
      plan_.add(next, row.kind, metric, number_of(row.name, metric, name, scope, layer ? layer->second : -1));
    }
  }
  if (row.of_parameters) {
    if (layer && has_level("layer")) new_members_[{of, "layer", layer->first}].push_back(next);
    if (has_level("model")) new_members_[{of, "model", ""}].push_back(next);
  }
  return next;
}

void ProgramSeries::add_groups() {
  for (const auto& [group, labels] : std::exchange(new_members_, {})) {
    const QuantityOfProgram& row = row_of_quantity(group.of);
    const auto layer = layer_of_name(group.name + ".");
    for (const std::string_view metric : metrics_of(group.of)) {
      plan_.add_group(labels, row.kind, metric,
                      number_of(row.name, metric, group.name, group.scope, layer ? layer->second : -1));
    }
  }
}

std::vector<double> ProgramSeries::evaluate(const monitor::Frame& frame) {
  // Parameters come at the beginning: once they have, what they make together is decided.
  add_groups();
  std::vector<double> values;
  plan_.evaluate(frame, values);
  return values;
}

}  // namespace msprobe::torch_adapter

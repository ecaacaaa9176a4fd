// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "msprobe/error.h"
#include "msprobe/table.h"
#include "msprobe/torch_debugger.h"

namespace msprobe::torch_adapter {
namespace {

grad_probe::Level level_named(std::string_view name) {
  if (name == "L0") return grad_probe::Level::kL0;
  return name == "L1" ? grad_probe::Level::kL1 : grad_probe::Level::kL2;
}

// Labels are as Python prints the numbers.
grad_probe::Bound bound_of(const io::Value& value) {
  if (const auto* const whole = value.as<std::int64_t>()) {
    return {static_cast<double>(*whole), std::to_string(*whole)};
  }
  const auto* const real = value.as<double>();
  if (real == nullptr) throw InternalError("the configuration has a bound that is no number");
  return {*real, io::format_double(*real)};
}

}  // namespace

dump::Options dump_options(const config::Config& config) {
  const config::Values& section = config.section;
  const auto has = [&](std::string_view key) { return section.contains(key); };
  const auto texts = [&](std::string_view key) {
    return has(key) ? section.texts(key) : std::vector<std::string>();
  };
  dump::Options options;
  options.task = config.task;
  options.level = config.level;
  options.list = texts("list");
  options.scope = texts("scope");
  options.tensor_list = texts("tensor_list");
  if (has("data_mode")) {
    options.forward = section.has("data_mode", "forward");
    options.backward = section.has("data_mode", "backward");
    options.input = section.has("data_mode", "input");
    options.output = section.has("data_mode", "output");
  }
  options.checksum = has("summary_mode") && section.text("summary_mode") == "md5" && !config.async_dump;
  options.store_tensors = config.task == "tensor" || config.task == "overflow_check";
  options.npy = has("tensor_format") && section.text("tensor_format") == "npy";
  options.data = config.task != "structure";
  options.hierarchy = config.level != "L1";
  options.only_overflow = config.task == "overflow_check";
  if (options.only_overflow) {
    options.overflow_limit =
        static_cast<std::size_t>(std::max<std::int64_t>(section.integer("overflow_nums"), 0));
  }
  options.all_functions = section.text("api_set") == "all";
  options.deferred = section.text("json") == "deferred";
  return options;
}

GradProbeSettings grad_probe_settings(const config::Config& config, int rank) {
  GradProbeSettings settings;
  settings.options.dump_path = config.dump_path;
  settings.options.rank = rank;
  settings.options.level = level_named(config.section.text("grad_level"));
  for (const io::Value& bound : *config.section.at("bounds").as<io::Value::List>()) {
    settings.options.bounds.push_back(bound_of(bound));
  }
  settings.steps = config.steps;
  return settings;
}

}  // namespace msprobe::torch_adapter

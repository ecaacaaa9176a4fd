// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
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

GradProbeSettings grad_probe_settings(const config::Config& config, int rank) {
  GradProbeSettings settings;
  settings.options.dump_path = config.dump_path;
  settings.options.rank = rank;
  settings.options.level = level_named(config.section.text("grad_level"));
  if (config.section.text("layout") == "packed") settings.options.layout = grad_probe::Layout::kPacked;
  for (const io::Value& bound : *config.section.at("bounds").as<io::Value::List>()) {
    settings.options.bounds.push_back(bound_of(bound));
  }
  settings.steps = config.steps;
  return settings;
}

}  // namespace msprobe::torch_adapter

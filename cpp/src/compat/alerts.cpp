// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <utility>

#include "msprobe/monitor.h"
#include "msprobe/trainer_mon.h"

namespace msprobe::monitor {
namespace {

constexpr double kFactor = 0.99;  // of the exponential mean, as in mindstudio-probe

bool applies(const AlertRule& rule, double value, double mean) {
  const double magnitude = std::abs(value);
  if (rule.kind == AlertRule::Kind::kNan) {
    return std::isnan(value) || (rule.threshold && magnitude > *rule.threshold);
  }
  return magnitude > mean * (1 + rule.threshold.value_or(0));
}

}  // namespace

Alerts::Alerts(std::vector<AlertRule> rules, std::vector<std::string> ops)
    : rules_(std::move(rules)), ops_(std::move(ops)) {
  for (const std::string& op : ops_) scalar(Row{}, op);  // throws
}

std::vector<Alert> Alerts::check(const Frame& frame) {
  std::vector<Alert> alerts;
  const std::vector<Row>& rows = frame.rows();
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const Row& row = rows[r];
    if (row.missing) continue;
    for (std::size_t op = 0; op < ops_.size(); ++op) {
      if (ops_[op] == "id" && !row.has_no_dimensions()) continue;
      const double value = scalar(row, ops_[op]);
      const auto [known, is_new] = means_.try_emplace({row.label, row.micro_step, op}, std::abs(value));
      double& mean = known->second;
      const double before = mean;
      if (!std::isfinite(mean)) {
        mean = std::abs(value);
      } else if (std::isfinite(value) && !is_new) {
        mean = kFactor * mean + (1 - kFactor) * std::abs(value);
      }
      for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
        if (!applies(rules_[rule], value, before)) continue;
        const bool is_turbulence = rules_[rule].kind == AlertRule::Kind::kTurbulence;
        if (!is_turbulence || ops_[op] == "norm" || ops_[op] == "mean") {
          alerts.push_back({r, op, rule, value, before});
        }
        break;
      }
    }
  }
  return alerts;
}

}  // namespace msprobe::monitor

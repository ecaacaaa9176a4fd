// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/monitor.h"

namespace msprobe::monitor {

// Calibrated with tests/python/monitoring/monitor_events.py: healthy trainings raise none of them.
std::vector<Rule> default_rules() {
  using Kind = Rule::Kind;
  std::vector<Rule> rules;
  const auto add = [&](Rule rule) { rules.push_back(std::move(rule)); };
  add({.kind = Kind::kNonFinite, .name = "nonfinite", .series = {"*"}});
  add({.kind = Kind::kLimit,
       .name = "bad_values",
       .series = {"gradient.nonfinite*", "weight.nonfinite*", "*.nans*", "*.infs*"},
       .threshold = 0});
  add({.kind = Kind::kSpike,
       .name = "spike",
       .series = {"loss", "gradient.norm*", "update.distance*", "activation.rms/*",
                  "activation_gradient.rms/*"},
       .threshold = 8,
       .ratio = 4,
       .warm_up = 30,
       .window = 100});
  add({.kind = Kind::kSpike,
       .name = "kurtosis",
       .series = {"activation.kurtosis/*", "gradient.kurtosis/*"},
       .threshold = 8,
       .ratio = 6,
       .warm_up = 50,
       .window = 100});
  add({.kind = Kind::kDrift,
       .name = "drift",
       .series = {"attention_logit.max/*", "activation.rms/*", "activation.abs_max/*", "gradient.norm"},
       .threshold = 40,
       .ratio = 2.5,
       .slack = 1.5,
       .warm_up = 60,
       .window = 200});
  add({.kind = Kind::kLimit,
       .name = "attention_logit",
       .series = {"attention_logit.max/*"},
       .threshold = 100});
  add({.kind = Kind::kLimit,
       .name = "dead_experts",
       .series = {"expert_load.dead/*"},
       .threshold = 0.49,
       .warm_up = 10});
  return rules;
}

}  // namespace msprobe::monitor

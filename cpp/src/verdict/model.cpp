// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/model.h"

#include "msprobe/error.h"

namespace msprobe::verdict {

Model::Model() {
#define NUMBER(name, value, source) name = value;
#define RULE(name, says)
#include "verdict/model.inc"
}

Model Model::with(const compare::ModelChanges& changes) {
  Model model;
  for (const auto& [changed, value] : changes) {
    bool is_known = false;
#define NUMBER(name, initial, source) \
  if (changed == #name) is_known = true, model.name = value;
#define RULE(name, says) \
  if (changed == #name) is_known = true, model.name = value != 0;
#include "verdict/model.inc"
    if (!is_known) throw InvalidArgument("there is no number and no rule \"" + changed + "\" in the verdict");
  }
  return model;
}

}  // namespace msprobe::verdict

namespace msprobe::compare {

std::vector<VerdictNumber> verdict_numbers() {
  return {
#define NUMBER(name, value, source) {#name, value, source},
#define RULE(name, says)
#include "verdict/model.inc"
  };
}

std::vector<std::array<std::string_view, 2>> verdict_switches() {
  return {
#define NUMBER(name, value, source)
#define RULE(name, says) {#name, says},
#include "verdict/model.inc"
  };
}

}  // namespace msprobe::compare

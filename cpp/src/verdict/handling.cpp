// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/handling.h"

#include <cmath>
#include <optional>

#include "verdict/state_entry.h"

namespace msprobe::verdict {

using trace::Json;

Handling handling(const Model& model, const Json& state, const Json& at_optimizer) {
  const auto& passes = state["backward"].items();
  if (passes.empty()) return {};
  bool all_equal = true, is_scaled = true;
  double before = 0, after = 0;
  std::optional<double> factor;
  for (const EntryPair& entry : common(at_optimizer, passes.back()["after_reduction"])) {
    const auto now = tensor_of(*entry.target), &then = entry.facts;
    if (!now || !then) continue;
    all_equal &= metrics::distance(*now, *then).equal;
    const double size = then->typical(), scaled = now->typical();
    before += then->squares();
    after += now->squares();
    if (size == 0) continue;
    const double own = scaled / size;
    if (!factor) factor = own;
    is_scaled &= std::abs(own - *factor) <=
                 model.suspect * model.own_rounding(metrics::unit_roundoff(now->dtype)) * *factor;
  }
  if (before == 0) return {};
  return {all_equal ? "unchanged" : is_scaled ? "scaled" : "changed", std::sqrt(after / before)};
}

}  // namespace msprobe::verdict

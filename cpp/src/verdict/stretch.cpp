// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/stretch.h"

#include <cmath>

namespace msprobe::verdict {

Stretch::Stretch(const Calls& calls, bool is_asked)
    : calls_(calls), is_same_work_(is_asked && calls.model().stretch) {}

void Stretch::see(const ItemPair& row, const Measured& measured) {
  if (!measured.counts || !std::isfinite(measured.allowed.magnitude)) end();
  if (far_off_ != nullptr || !is_same_work_ || !is_forward_result(row)) return;
  if (measured.apart.low > measured.allowed.cancelled * most()) far_off_ = &row;
}

void Stretch::tell(compare::StepWalk& walk) const {
  if (far_off_ == nullptr) return;
  walk.first_differing = calls_.item_name(*far_off_);
  for (const ItemPair* row = far_off_; row-- != calls_.pair().matches.pairs.data();) {
    if (!row->reference || !is_forward_result(*row) || calls_.distance(*row).high > most()) continue;
    walk.last_agreeing = calls_.item_name(*row);
    return;
  }
}

double Stretch::most() const { return calls_.model().most_together * calls_.coarsest_unit(); }

// Some gradients are nothing but rounding, and so is what is made of them.
bool Stretch::is_forward_result(const ItemPair& row) const {
  return calls_.is_result(row) && calls_.unit(row) > 0 && calls_.distance(row).norm > 0 &&
         calls_.zone(row.target_record) == Zone::kModel && !calls_.is_after_backward(row.target_record);
}

}  // namespace msprobe::verdict

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Each place of a step may be within its tolerance, and the whole too far off: small systematic differences
/// add up. In the first step, on equal weights and data, no result is farther off than a model that is
/// computed once may be.

#include "msprobe/step_walk.h"
#include "verdict/calls.h"
#include "verdict/findings.h"

namespace msprobe::verdict {

class Stretch {
 public:
  /// Keeps what it is given. `is_asked`: of the first step.
  Stretch(const Calls& calls, bool is_asked);

  /// From here on weights or data are others, or something differs of which it is not known to be rounding.
  void end() noexcept { is_same_work_ = false; }

  /// A result that differs, in the order of the calls.
  void see(const ItemPair& row, const Measured& measured);

  /// Between which two results the runs are too far apart, if they are.
  void tell(compare::StepWalk& walk) const;

 private:
  double most() const;
  bool is_forward_result(const ItemPair& row) const;

  const Calls& calls_;
  bool is_same_work_;
  const ItemPair* far_off_ = nullptr;  // the first result that is so
};

}  // namespace msprobe::verdict

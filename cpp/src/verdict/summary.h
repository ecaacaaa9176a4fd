// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "msprobe/step_walk.h"
#include "verdict/calls.h"

namespace msprobe::verdict {

/// What is said of a step as a whole: counts, the largest distances, the first tensor that has little in
/// common, and the stretch in which small differences add up to more than a model that is computed once may
/// make. Puts the findings in order, and keeps parameters for the next step where no training state does.
void summarize(const Calls& calls, bool is_first_step, bool has_state, compare::StepWalk& walk);

}  // namespace msprobe::verdict

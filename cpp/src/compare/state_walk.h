// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compare/call_walk.h"
#include "msprobe/step_walk.h"

namespace msprobe::compare {

/// Adds to the walk over the calls of a step what the training state shows: data, weights, settings, what
/// becomes of the gradients, and what the optimizer makes of them.
void walk_state(const trace::TrainingState& target, const trace::TrainingState& reference,
                const StepWalk* before, CallWalk& calls);

}  // namespace msprobe::compare

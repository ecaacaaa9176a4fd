// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verdict/suspects_of_calls.h"

namespace msprobe::verdict {

/// Adds to what is found among the calls of a step what the training state shows: data, weights, settings,
/// what becomes of the gradients, and what the optimizer makes of them. The reference has the names of the
/// target (other_names.h).
void add_suspects_of_state(const Model& model, const trace::Json& target, const trace::Json& reference,
                           const compare::StepWalk* before, SuspectsOfCalls& calls, const Observer& observer);

}  // namespace msprobe::verdict

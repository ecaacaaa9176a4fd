// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What of a step arrives: its losses, and the gradients that its optimizer gets. What a step computes on the
/// way to them may be computed in another way, with other calls between; an error on the way arrives in some
/// of them.

#include <cstdint>

#include "msprobe/training_state.h"
#include "verdict/calls.h"

namespace msprobe::verdict {

/// The largest distance of a gradient, as the backward pass leaves it and as the optimizer gets it, at most:
/// of two training states. Infinite where not all were compared, or one is suspect by itself, as it has lost
/// more than half of the digits of the coarsest dtype that the step computes in.
double arriving_gradients(const Calls& calls, const trace::Json& target, const trace::Json& reference);

/// The same of what the backward passes begin at. `is_exact`: infinite beyond what is expected of the calls
/// that made them, from where the runs are equal.
double arriving_losses(const Calls& calls, const compare::StepWalk* before, bool is_exact);

/// What losses may be off by that agree: half of their digits, as they are computed in float32, and one
/// rounding of the coarsest dtype, as roundings average out in a mean.
double most_of_losses(const Calls& calls);

enum class Arrival : std::uint8_t {
  kArrives,
  kNowhere,  // losses and gradients are far less off
  kLater     // so, too, but nothing learns of it in this step: later ones tell
};

/// An error of what requires a gradient, or is one, arrives in some of them, or in the loss. Where these are
/// far less off, the runs compute the same in two ways, and have something else at this place, or the loss is
/// not made of it: then it is not suspect, and nothing comes of it. What calls make that no gradient goes
/// through may count in a later step. Data are not excused in the first one: nothing computed them, so they
/// are other data, however little comes of them. `arriving`: StepWalk::arriving.
Arrival arrival(const Calls& calls, const ItemPair& row, const metrics::Distance& apart, double arriving,
                bool is_first_step);

}  // namespace msprobe::verdict

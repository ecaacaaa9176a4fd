// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What of a step arrives: its losses, and the gradients that its optimizer gets. What a step computes on the
/// way to them may be computed in another way, with other calls between; an error on the way arrives in some
/// of them.

#include "msprobe/training_state.h"
#include "verdict/calls.h"

namespace msprobe::verdict {

/// The largest distance of a gradient, as the backward pass leaves it and as the optimizer gets it, at most:
/// of two training states. Infinite where not all were compared, or one is suspect by itself, as it has lost
/// more than half of the digits of the coarsest dtype that the step computes in.
double arriving_gradients(const Calls& calls, const trace::Json& target, const trace::Json& reference);

/// The same of what the backward passes begin at.
double arriving_losses(const Calls& calls);

/// An error of what requires a gradient, or is one, arrives in some of them, or in the loss. Where these are
/// far less off, the runs compute the same in two ways, and have something else at this place, or the loss is
/// not made of it: then it is not suspect, and nothing comes of it. What no gradient goes through is not
/// excused in the first step: nothing computed it, so it is other data, however little comes of it.
/// `arriving`: StepWalk::arriving.
bool arrives(const Calls& calls, const ItemPair& row, const metrics::Distance& apart, double arriving,
             bool is_first_step);

}  // namespace msprobe::verdict

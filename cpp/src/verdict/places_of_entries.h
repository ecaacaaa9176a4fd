// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The places of single entries of a training state: what each is made of, from what is known of the moment
/// before. Which moments there are is told in places_of_state.cpp.

#include <map>
#include <string>

#include "verdict/model.h"
#include "verdict/place.h"
#include "verdict/state_entry.h"

namespace msprobe::verdict {

/// How far off tensors are, by their names.
using Reached = std::map<std::string, Source, std::less<>>;

/// All of them as one: the largest.
Source largest_of(const Reached& reached);

/// The largest that one of their norms or means is off by.
double largest_of_norms(const Reached& reached);

/// Of the reference. One that is negligible counts as large as what it is measured against.
Tensor tensor_at(const EntryPair& entry);
Source source_at(const EntryPair& entry);

/// Nothing computed it.
Place origin(const EntryPair& entry);

/// It is what it was before, but for a rounding.
Place kept(const EntryPair& entry, const metrics::Distance& before);

/// By all calls of a step, which are not seen one by one, where they are off by so much.
Place through_all(const EntryPair& entry, double error);

/// The moment before, or the worst of it where this very tensor is not known.
Place after(const Reached& reached, const EntryPair& entry, operators::Gain gain = operators::Gain::kSum);

/// The total norm spreads every difference, and is rounded itself: all are multiplied by one number.
Place clipped(const Model& model, const Reached& before, const EntryPair& entry);

/// A weight decay that is not decoupled adds a part of each parameter to its gradient, with what that is off
/// by. `step`: of an optimizer; `decayed`: parameters.
Reached with_decay(const Model& model, const trace::Json& step, const Reached& decayed, Reached gradients);

/// A state of an optimizer is the sum of a part of what it was, and of the gradient or its square, which is
/// off by twice as much: that part is no larger than what it was and what it is together.
Place state_after(const EntryPair& entry, const Reached& before, const Reached& gradients);

/// R6 in place of R2. What is moved is the first source: nothing, at the first step. `earlier`: the entry.
void step_by(const EntryPair& entry, const trace::Json& earlier, Place& place);

}  // namespace msprobe::verdict

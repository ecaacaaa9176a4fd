// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The calls of a step, place by place: which are suspect, and what comes of what has no distance.

#include <map>
#include <string>
#include <vector>

#include "msprobe/step_walk.h"
#include "verdict/explain.h"

namespace msprobe::verdict {

/// What is found among the calls of a step, and what the places of the training state need of it.
struct SuspectsOfCalls {
  compare::StepWalk walk;
  /// By how much the results of each module are beyond their tolerance, at most: by its path.
  std::map<std::string, double, std::less<>> excess_of_modules;
  double gradients = 0;  // the largest distance of a gradient, or of what the backward pass gave
  /// How far off the gradients of parameters are as the backward pass made them, by value.
  compare::KnownValues gradients_of_parameters;
  /// How far off results of calls are that differ, by value: another call of a model may be given them.
  compare::KnownValues results;
};

/// `before`: of the step before; null for the first. `has_state`: parameters and data are told by it.
/// `gradients`: of arriving_gradients().
SuspectsOfCalls suspects_of_calls(const Model& model, const trace::DumpPair& pair,
                                  const std::vector<trace::RealMetrics>& metrics,
                                  const std::vector<metrics::Distance>& distances,
                                  const compare::StepWalk* before, bool has_state, double gradients,
                                  const Observer& observer);

}  // namespace msprobe::verdict

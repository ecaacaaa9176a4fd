// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The places of a step: which are suspect, and what comes of what has no distance.

#include <map>
#include <string>
#include <vector>

#include "msprobe/step_walk.h"
#include "verdict/calls.h"
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
  /// Results of the calls in front of the first call of the model, of both runs; and, as above, of those that
  /// write into what they are given, as into parameters.
  compare::KnownValues prepared, written;
};

/// `before`: of the step before; null for the first. `target`, `reference`: the training states, where the
/// pair has both; parameters and data are told by them.
SuspectsOfCalls suspects_of_calls(const Model& model, const trace::DumpPair& pair,
                                  const std::vector<trace::RealMetrics>& metrics,
                                  const std::vector<metrics::Distance>& distances,
                                  const compare::StepWalk* before, const trace::Json& target,
                                  const trace::Json& reference, const Observer& observer);

/// Adds to it what the training state shows: data, weights, settings, what becomes of the gradients, and what
/// the optimizer makes of them. The reference has the names of the target (other_names.h).
void add_suspects_of_state(const Model& model, const trace::Json& target, const trace::Json& reference,
                           const compare::StepWalk* before, SuspectsOfCalls& calls, const Observer& observer);

/// What is said of the calls of a step as a whole: counts, the largest distances, and the first tensor that
/// has little in common. Keeps parameters for the next step where no training state does.
void summarize(const Calls& calls, bool has_state, compare::StepWalk& walk);

}  // namespace msprobe::verdict

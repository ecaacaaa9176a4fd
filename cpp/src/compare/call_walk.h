// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "msprobe/step_walk.h"
#include "msprobe/verdict.h"

namespace msprobe::compare {

/// What the walk over the calls of a step hands on to that over the training state.
struct CallWalk {
  StepWalk walk;
  /// How far off the results of each module are beyond what is explained, at most: by its path.
  std::map<std::string, double, std::less<>> strength_of_modules;
  double gradients = 0;  // the largest distance of a gradient or of what the backward gave
  /// How far off the gradients of parameters are as the backward pass made them.
  KnownValues gradients_of_parameters;
};

/// `before`: of the step before; null for the first. `has_state`: parameters and data are told by it.
CallWalk walk_calls(const DumpPair& pair, const std::vector<RealMetrics>& metrics,
                    const std::vector<Distance>& distances, const StepWalk* before, bool has_state);

}  // namespace msprobe::compare

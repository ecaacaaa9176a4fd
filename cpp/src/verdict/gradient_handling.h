// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What a run makes of its gradients between the backward pass and the optimizer, whatever function does it.

#include <string_view>

#include "msprobe/training_state.h"
#include "verdict/model.h"

namespace msprobe::verdict {

struct Handling {
  std::string_view word;  // "unchanged", "scaled", "changed"; empty: it is not known
  double factor = 1;      // of the norm of all of them
};

/// `state`: of a step of one run; `at_optimizer`: the gradients that an optimizer of it is given.
Handling handling(const Model& model, const trace::Json& state, const trace::Json& at_optimizer);

}  // namespace msprobe::verdict

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "msprobe/training_state.h"
#include "verdict/model.h"

namespace msprobe::verdict {

/// What a run makes of its gradients between the backward pass and the optimizer, whatever function does it.
struct Handling {
  std::string_view word;  // "unchanged", "scaled", "changed"; empty: it is not known
  double factor = 1;      // of the norm of all of them
};

/// Of the training state of a run, and the gradients in it that its optimizer got.
Handling handling(const Model& model, const trace::Json& state, const trace::Json& at_optimizer);

}  // namespace msprobe::verdict

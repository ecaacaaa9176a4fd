// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Parameters that a refactoring of the program gave other names.

#include <map>
#include <string>

#include "msprobe/training_state.h"

namespace msprobe::verdict {

/// What the target calls parameters, buffers and modules of the reference, by their names in the reference;
/// those that both runs name alike are left out. Tensors are paired by value, then, where the same shapes are
/// left on both sides, by their place in the model. Modules are those that hold them.
std::map<std::string, std::string> other_names(const trace::Json& target, const trace::Json& reference);

/// The training state of a run with these names.
trace::Json renamed(const trace::Json& state, const std::map<std::string, std::string>& names);

}  // namespace msprobe::verdict

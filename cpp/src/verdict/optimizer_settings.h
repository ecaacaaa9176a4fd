// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What two optimizers are set to: their class, their groups, and which parameters they update.

#include <string_view>

#include "verdict/findings.h"
#include "verdict/state_entry.h"

namespace msprobe::verdict {

/// Adds a finding for each setting that differs. Where both have the same groups these are named by the group
/// ("optimizer.groups.0.lr"); else by the parameters that have another setting, however they are grouped.
/// `error`: what norms of gradients are off by; a number may be made of them, as a rate that follows their
/// noise, and is as far off then. False: something differs that changes what is computed.
bool add_optimizer_settings(Findings& found, const trace::Json& ours, const trace::Json& theirs,
                            double error);

/// Whether this state of a parameter is made of steps, which were divided by the size of the gradient or
/// chosen by its sign, or of the parameter that they move, and not of gradients.
bool holds_steps(const trace::Json& step, std::string_view state);

}  // namespace msprobe::verdict

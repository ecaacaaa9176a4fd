// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Why a place is suspect or not: the sum that its tolerance is.

#include <functional>
#include <string>

#include "msprobe/step_walk.h"
#include "verdict/model.h"
#include "verdict/place.h"

namespace msprobe::verdict {

/// Is given each place that was looked at: its name, how far off it is, and the sum.
using Observer = std::function<void(const compare::Judged&)>;

/// `name_of`: of a source by its row.
compare::Explanation explanation(const Model& model, const Place& place, const Tolerance& allowed,
                                 const std::function<std::string(std::uint32_t)>& name_of);

}  // namespace msprobe::verdict

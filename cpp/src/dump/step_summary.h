// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "msprobe/dump.h"

namespace msprobe::dump {

inline constexpr const char* kSummary = "summary.json";  // in the folder of a step

/// Its content: what the step held, for people and scripts.
std::string summary_text(const StepReport& report, double wall_time_s);

}  // namespace msprobe::dump

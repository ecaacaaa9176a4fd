// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "msprobe/dump.h"

namespace msprobe::dump {

/// Writes `summary.json` into the directory of a step: what it held, for people and scripts. Throws
/// IoError.
void write_summary(const std::filesystem::path& directory, const StepReport& report, double wall_time_s);

}  // namespace msprobe::dump

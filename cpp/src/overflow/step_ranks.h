// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <utility>
#include <vector>

namespace msprobe::overflow {

/// The folders of the ranks in `step_dir`, by number: rank{N}, `rank` (0); `step_dir` itself when dump.json
/// lies in it. Throws InvalidArgument when there are none, or two of one number; IoError.
std::vector<std::pair<int, std::filesystem::path>> rank_directories(const std::filesystem::path& step_dir);

}  // namespace msprobe::overflow

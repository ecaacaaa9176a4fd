// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>

namespace msprobe::fuzz {

/// Opens a checkpoint and reads all of it: what it holds is not more than `bytes` for each parameter, and
/// compared with itself it is equal, as far as it has numbers.
void walk_checkpoint(const std::filesystem::path& path, std::size_t bytes);

}  // namespace msprobe::fuzz

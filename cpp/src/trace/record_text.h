// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace msprobe::trace {

/// The bytes [begin, end) of a file that was read before: a record as it stands in dump.json. Throws IoError,
/// and FormatError when the file is shorter now.
std::string record_text(const std::filesystem::path& path, std::uint64_t begin, std::uint64_t end);

}  // namespace msprobe::trace

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace msprobe::dump {

/// "{record}.{position}{ending}", safe as the name of one file: `/` and NUL become `_`, and what would be
/// longer than file systems take is cut and made unique by its CRC-32.
std::string tensor_file_name(std::string_view record, std::string_view position, std::string_view ending);

/// Appends one entry to dump_error_info.log. Throws IoError.
void append_fault(const std::filesystem::path& path, std::string_view record, std::string_view what);

}  // namespace msprobe::dump

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace msprobe::io {

/// A database as SQLite takes it with SQLITE_OPEN_URI: its absolute path as part of a URI, and `options`
/// behind it,
/// "?mode=ro" for one.
std::string sqlite_address(const std::filesystem::path& path, std::string_view options);

}  // namespace msprobe::io

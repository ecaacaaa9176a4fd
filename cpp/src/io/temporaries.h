// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string_view>

namespace msprobe::io {

/// Removes what killed processes left in `directory`: `.{name}.{process}.tmp` and `.{name}.{process}-{n}.tmp`
/// with a name that begins with one of `beginnings`, when no such process runs on this machine; with `own`
/// those of this process, too. What cannot be removed stays.
void remove_stale_temporaries(const std::filesystem::path& directory,
                              std::initializer_list<std::string_view> beginnings, bool own) noexcept;

}  // namespace msprobe::io

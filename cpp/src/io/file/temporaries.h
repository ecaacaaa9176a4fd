// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>

namespace msprobe::io {

/// `.{name}.{process}.tmp` of this process; `.{name}.{process}-{n}.tmp` for n > 0, which tells apart several
/// writers of one process. Readers of a directory may rely on the leading dot and the ending. A long name is
/// cut off.
std::string temporary_name(std::string_view name, std::size_t n = 0);

/// Removes what killed processes left in `directory`: temporary_name()s with a name that begins with one of
/// `beginnings`, when no such process runs on this machine; with `own` those of this process, too. What
/// cannot be removed stays.
void remove_stale_temporaries(const std::filesystem::path& directory,
                              std::initializer_list<std::string_view> beginnings, bool own) noexcept;

}  // namespace msprobe::io

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A step of one rank as one file: the zip archive step.zip holds what would else lie beside it
/// (docs/formats/dump.md). Readers ask for dump.json or diagnosis.json as ever, by InputFile and is_there().

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/export.h"

namespace msprobe::io {

inline constexpr std::string_view kPackedStep = "step.zip";

/// Writes `folder`/step.zip with these files, (name, content). It is complete or absent. Throws IoError.
MSPROBE_API void write_packed_step(const std::filesystem::path& folder,
                                   std::span<const std::pair<std::string, std::string>> files);

/// What `path` would hold, from the archive in its folder; nullopt: there is no archive, or no such file in
/// it. Throws IoError, FormatError.
MSPROBE_API std::optional<std::string> read_packed(const std::filesystem::path& path);

/// Whether there is a file of this path, in its place or packed. An archive that cannot be read has every
/// file: who reads one of them says what is wrong.
MSPROBE_API bool is_there(const std::filesystem::path& path);

/// Writes the files of an archive into `folder`, which is created when it is missing, each complete or
/// absent. Gives their names, sorted. Throws IoError, and FormatError also for a name that leads elsewhere:
/// then nothing is written.
MSPROBE_API std::vector<std::string> unpack_step(const std::filesystem::path& archive,
                                                 const std::filesystem::path& folder);

}  // namespace msprobe::io

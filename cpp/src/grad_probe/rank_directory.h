// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

/// Names inside {dump_path}: rank{R}/grad_summary_{S}.csv, rank{R}/step{S}/, and the temporary names beside
/// them.
namespace msprobe::grad_probe {

inline constexpr std::string_view kRankPrefix = "rank";
inline constexpr std::string_view kStepPrefix = "step";
inline constexpr std::string_view kSummaryPrefix = "grad_summary_";

std::filesystem::path rank_directory(const std::filesystem::path& dump_path, int rank);
std::filesystem::path step_directory(const std::filesystem::path& rank_dir, std::int64_t step);
std::filesystem::path summary_file(const std::filesystem::path& rank_dir, std::int64_t step);

/// Creates `.step{S}.{pid}.tmp`, where the direction files of a step are collected before they appear under
/// step_directory(); `.step{S}.{pid}-{n}.tmp` when that is taken. Throws IoError.
std::filesystem::path create_temporary_step_directory(const std::filesystem::path& rank_dir,
                                                      std::int64_t step);

/// The number in `{prefix}{number}`, as this module writes it: digits only and without leading zeros.
std::optional<std::int64_t> number_after(std::string_view prefix, std::string_view name);

/// Numbers of the directories `{prefix}{number}` in `directory`, ascending. Throws IoError.
std::vector<std::int64_t> numbered_directories(const std::filesystem::path& directory,
                                               std::string_view prefix);

/// Removes what killed processes left half-written in `rank_dir`: temporaries whose process is gone, and with
/// `own` those of this process. What cannot be removed stays.
void remove_stale_temporaries(const std::filesystem::path& rank_dir, bool own) noexcept;

}  // namespace msprobe::grad_probe

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "grad_probe/rank_directory.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>
#include <system_error>

#include "io/file/temporaries.h"
#include "msprobe/error.h"
#include "msprobe/file.h"

namespace msprobe::grad_probe {

namespace fs = std::filesystem;

fs::path rank_directory(const fs::path& dump_path, int rank) {
  return dump_path / (std::string(kRankPrefix) + std::to_string(rank));
}

fs::path step_directory(const fs::path& rank_dir, std::int64_t step) {
  return rank_dir / (std::string(kStepPrefix) + std::to_string(step));
}

fs::path summary_file(const fs::path& rank_dir, std::int64_t step) {
  return rank_dir / (std::string(kSummaryPrefix) + std::to_string(step) + ".csv");
}

fs::path create_temporary_step_directory(const fs::path& rank_dir, std::int64_t step) {
  const std::string name = step_directory(rank_dir, step).filename().string();
  constexpr std::size_t kAttempts = 100;
  fs::path path;
  for (std::size_t attempt = 0; attempt < kAttempts; ++attempt) {
    path = rank_dir / io::temporary_name(name, attempt);
    if (::mkdir(path.c_str(), io::kDirectoryMode) == 0) return path;
    if (errno != EEXIST) break;
  }
  throw IoError("cannot create the directory", path.string(), errno);
}

std::optional<std::int64_t> number_after(std::string_view prefix, std::string_view name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  const bool digits = std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (name.empty() || !digits || (name.size() > 1 && name[0] == '0')) return std::nullopt;
  std::int64_t number = 0;
  const auto error = std::from_chars(name.data(), name.data() + name.size(), number).ec;
  return error == std::errc{} ? std::optional(number) : std::nullopt;
}

std::vector<std::int64_t> numbered_directories(const fs::path& directory, std::string_view prefix) {
  std::vector<std::int64_t> numbers;
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const auto number = number_after(prefix, entry->path().filename().string());
    std::error_code ignored;  // an entry that vanishes meanwhile is no directory
    if (number && entry->is_directory(ignored)) numbers.push_back(*number);
  }
  if (error) throw IoError("cannot list the directory", directory.string(), error.value());
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

void remove_stale_temporaries(const fs::path& rank_dir, bool own) noexcept {
  io::remove_stale_temporaries(rank_dir, {kStepPrefix, kSummaryPrefix}, own);
}

}  // namespace msprobe::grad_probe

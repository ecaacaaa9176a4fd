// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "grad_probe/rank_directory.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <limits>
#include <string>
#include <system_error>

#include "msprobe/error.h"
#include "msprobe/file.h"

namespace msprobe::grad_probe {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSummaryPrefix = "grad_summary_";
constexpr std::string_view kTemporarySuffix = ".tmp";

// The process in `.{step directory or csv}.{pid}.tmp` or `.{...}.{pid}-{attempt}.tmp` (io::AtomicFile);
// nullopt for any other name.
std::optional<pid_t> owner_of_temporary(std::string_view name) {
  if (!name.starts_with('.') || !name.ends_with(kTemporarySuffix)) return std::nullopt;
  name.remove_prefix(1);
  name.remove_suffix(kTemporarySuffix.size());
  if (!name.starts_with(kStepPrefix) && !name.starts_with(kSummaryPrefix)) return std::nullopt;
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view ending = name.substr(dot + 1);
  const auto process = number_after("", ending.substr(0, ending.find('-')));
  if (!process || *process <= 0 || *process > std::numeric_limits<pid_t>::max()) return std::nullopt;
  return static_cast<pid_t>(*process);
}

bool is_running(pid_t process) noexcept { return ::kill(process, 0) == 0 || errno != ESRCH; }

}  // namespace

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
  std::string name(1, '.');
  name.append(kStepPrefix).append(std::to_string(step)).append(".").append(std::to_string(getpid()));
  constexpr int kAttempts = 100;
  fs::path path;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    path = rank_dir / name;
    if (attempt > 0) path += std::string(1, '-') += std::to_string(attempt);
    path += kTemporarySuffix;
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
  try {
    std::vector<fs::path> stale;
    for (const fs::directory_entry& entry : fs::directory_iterator(rank_dir)) {
      const auto owner = owner_of_temporary(entry.path().filename().string());
      if (owner && (*owner == getpid() ? own : !is_running(*owner))) stale.push_back(entry.path());
    }
    std::error_code ignored;
    for (const fs::path& path : stale) fs::remove_all(path, ignored);
  } catch (const std::exception&) {  // they only take room
  }
}

}  // namespace msprobe::grad_probe

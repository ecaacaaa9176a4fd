// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "overflow/step_ranks.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <system_error>

#include "msprobe/error.h"
#include "msprobe/packed_step.h"

namespace msprobe::overflow {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRank = "rank";

std::optional<int> rank_of(std::string_view name) {
  if (!name.starts_with(kRank)) return std::nullopt;
  name.remove_prefix(kRank.size());
  if (name.empty()) return 0;
  int number = 0;
  const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool whole = problem == std::errc() && end == name.data() + name.size() && number >= 0;
  return whole ? std::optional(number) : std::nullopt;
}

}  // namespace

std::vector<std::pair<int, fs::path>> rank_directories(const fs::path& step_dir) {
  std::vector<std::pair<int, fs::path>> ranks;
  std::error_code ignored;
  if (io::is_there(step_dir / "dump.json")) {
    const std::string name = fs::absolute(step_dir).lexically_normal().filename().string();
    ranks.emplace_back(rank_of(name).value_or(0), step_dir);
    return ranks;
  }
  std::error_code error;
  bool has_steps = false;
  fs::directory_iterator entry(step_dir, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (!entry->is_directory(ignored)) continue;
    const std::string name = entry->path().filename().string();
    has_steps |= name.starts_with("step");
    if (const auto rank = rank_of(name)) ranks.emplace_back(*rank, entry->path());
  }
  if (error) throw IoError("cannot list the directory", step_dir.string(), error.value());
  if (ranks.empty()) {
    throw InvalidArgument(step_dir.string() +
                          ": expected a step of a data dump, with folders rank{number}; found " +
                          (has_steps ? "folders step{number}: give one of them" : "none"));
  }
  std::sort(ranks.begin(), ranks.end());
  const auto twice = std::adjacent_find(ranks.begin(), ranks.end(),
                                        [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twice != ranks.end()) {
    throw InvalidArgument(step_dir.string() + ": found two folders of rank " + std::to_string(twice->first) +
                          ", " + twice->second.filename().string() + " and " +
                          std::next(twice)->second.filename().string());
  }
  return ranks;
}

}  // namespace msprobe::overflow

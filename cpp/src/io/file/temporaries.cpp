// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/file/temporaries.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <exception>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace msprobe::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".tmp";
constexpr std::size_t kLongestName = 255;  // NAME_MAX of the common file systems

// Nothing for a name of another form.
std::optional<pid_t> owner_of(std::string_view name, std::initializer_list<std::string_view> beginnings) {
  if (!name.starts_with('.') || !name.ends_with(kEnding)) return std::nullopt;
  name.remove_prefix(1);
  name.remove_suffix(kEnding.size());
  const auto begins = [&](std::string_view beginning) { return name.starts_with(beginning); };
  if (std::none_of(beginnings.begin(), beginnings.end(), begins)) return std::nullopt;
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  name.remove_prefix(dot + 1);
  const std::string_view digits = name.substr(0, name.find('-'));
  pid_t process = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), process);
  const bool whole = error == std::errc{} && end == digits.data() + digits.size();
  return whole && process > 0 ? std::optional(process) : std::nullopt;
}

bool is_running(pid_t process) noexcept { return ::kill(process, 0) == 0 || errno != ESRCH; }

}  // namespace

std::string temporary_name(std::string_view name, std::size_t n) {
  std::string ending = "." + std::to_string(::getpid());
  if (n > 0) ending.append("-").append(std::to_string(n));
  ending += kEnding;
  return std::string(1, '.').append(name, 0, kLongestName - 1 - ending.size()).append(ending);
}

void remove_stale_temporaries(const fs::path& directory, std::initializer_list<std::string_view> beginnings,
                              bool own) noexcept {
  try {
    std::vector<fs::path> stale;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
      const auto owner = owner_of(entry.path().filename().string(), beginnings);
      if (owner && (*owner == ::getpid() ? own : !is_running(*owner))) stale.push_back(entry.path());
    }
    std::error_code ignored;
    for (const fs::path& path : stale) fs::remove_all(path, ignored);
  } catch (const std::exception&) {  // they only take room
  }
}

}  // namespace msprobe::io

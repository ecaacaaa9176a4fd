// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "dump/tensor_name.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <utility>

#include "base/crc32.h"
#include "base/crc32_text.h"
#include "msprobe/error.h"
#include "msprobe/file.h"

namespace msprobe::dump {
namespace {

constexpr std::size_t kLongestName = 255;  // NAME_MAX of the common file systems

// The format's times are those of UTC+8, whatever the machine's zone is.
std::string time_text() {
  constexpr std::time_t kEightHours = 28800;
  const std::time_t now = std::time(nullptr) + kEightHours;
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S +0800", &parts)};
}

}  // namespace

std::string tensor_file_name(std::string_view record, std::string_view position, std::string_view ending) {
  std::string name;
  name.reserve(record.size() + position.size() + ending.size() + 1);
  name.append(record);
  if (!position.empty()) name.append(".").append(position);
  std::replace_if(name.begin(), name.end(), [](char c) { return c == '/' || c == '\0'; }, '_');
  if (name.starts_with('.')) name.front() = '_';
  if (name.size() + ending.size() > kLongestName) {
    const std::string mark = "." + crc32_text(crc32(0, name.data(), name.size()));
    name.resize(kLongestName - ending.size() - mark.size());
    name += mark;
  }
  return name.append(ending);
}

void append_fault(const std::filesystem::path& path, std::string_view record, std::string_view what) {
  io::append_text(path, "[" + time_text() + "] [ERROR] recording failed: name=" + std::string(record) +
                            ", pid=" + std::to_string(::getpid()) + "\n" + std::string(what) + "\n\n");
}

}  // namespace msprobe::dump

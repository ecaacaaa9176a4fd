// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "temp_dir.h"

namespace msprobe::test {

/// The cells of a file with tabs between them.
inline std::vector<std::vector<std::string>> read_table(const std::filesystem::path& path) {
  const std::string text = read_bytes(path);
  std::vector<std::vector<std::string>> rows = {{""}};
  for (const char c : text) {
    if (c == '\t') {
      rows.back().emplace_back();
    } else if (c == '\n') {
      rows.push_back({""});
    } else {
      rows.back().back() += c;
    }
  }
  rows.pop_back();  // after the last line
  return rows;
}

}  // namespace msprobe::test

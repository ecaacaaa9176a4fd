// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

/// Parts between dots, of a name or of a path. What the parts of a record's name mean: trace/record_name.h.
namespace msprobe::graph {

inline std::vector<std::string_view> split_name(std::string_view name) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t dot = name.find('.');
    parts.push_back(name.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    name.remove_prefix(dot + 1);
  }
}

/// `name` without its last `count` parts; empty when it has no more.
inline std::string_view without_parts(std::string_view name, int count) {
  for (; count > 0; --count) {
    const std::size_t dot = name.rfind('.');
    if (dot == std::string_view::npos) return {};
    name = name.substr(0, dot);
  }
  return name;
}

inline std::string_view last_part(std::string_view name) { return name.substr(name.rfind('.') + 1); }

inline bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace msprobe::graph

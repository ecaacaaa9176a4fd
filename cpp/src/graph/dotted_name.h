// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

/// The parts of names of nodes: "Module.fc.Linear.forward.0".
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

/// A call of a module: "X.forward.N" or "X.backward.N". Of X.backward.N with `direction` "forward" it makes
/// X.forward.N; empty when `name` is no such call.
inline std::string with_direction(std::string_view name, std::string_view direction) {
  const std::string_view count = last_part(name), before = without_parts(name, 1);
  const std::string_view now = last_part(before);
  if (!is_number(count) || (now != "forward" && now != "backward")) return {};
  std::string result(before.substr(0, before.size() - now.size()));
  result += direction;
  result += '.';
  result += count;
  return result;
}

/// "forward" or "backward" of a call of a module or of an operator; empty: it is neither.
inline std::string_view direction_of(std::string_view name) {
  std::string_view last = last_part(name);
  if (is_number(last)) last = last_part(without_parts(name, 1));
  return last == "forward" || last == "backward" ? last : std::string_view();
}

}  // namespace msprobe::graph

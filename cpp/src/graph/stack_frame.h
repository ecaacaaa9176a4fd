// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

/// Lines of a call stack: "File /job/train.py, line 120, in train_step, \n loss = model(batch)".
namespace msprobe::graph {

/// "train_step"; empty for a text of another form.
inline std::string_view function_of(std::string_view frame) {
  const std::size_t at = frame.find(", in ");
  if (at == std::string_view::npos) return {};
  frame.remove_prefix(at + 5);
  return frame.substr(0, frame.find(','));
}

/// Whether the file belongs to a package: "numpy", "msprobe". None does to one without a name.
inline bool is_of_package(std::string_view frame, std::string_view package) {
  if (package.empty()) return false;
  const std::string_view file = frame.substr(0, frame.find(", line "));
  for (std::size_t at = file.find(package); at != std::string_view::npos; at = file.find(package, at + 1)) {
    const std::size_t end = at + package.size();
    if (at > 0 && file[at - 1] == '/' && end < file.size() && file[end] == '/') return true;
  }
  return false;
}

}  // namespace msprobe::graph

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace msprobe::trace {

/// Whether the result of a call, "Torch.empty.0.forward", holds whatever the memory held before: it says
/// nothing about a run.
inline bool is_uninitialised(std::string_view record) {
  constexpr std::array<std::string_view, 6> kOperators = {
      "empty", "empty_like", "empty_with_format", "new_empty_strided", "new_empty", "empty_strided"};
  const std::size_t dot = record.find('.');
  if (dot == std::string_view::npos || record.starts_with("Module.")) return false;
  const std::string_view rest = record.substr(dot + 1);
  const std::string_view operation = rest.substr(0, rest.find('.'));
  return std::find(kOperators.begin(), kOperators.end(), operation) != kOperators.end();
}

}  // namespace msprobe::trace

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "trace/record_name.h"

namespace msprobe::trace {

/// Whether the result of a call, "Torch.empty.0.forward", holds whatever the memory held before: it says
/// nothing about a run.
inline bool is_uninitialised(std::string_view record) {
  constexpr std::array<std::string_view, 6> kOperators = {
      "empty", "empty_like", "empty_with_format", "new_empty_strided", "new_empty", "empty_strided"};
  return std::find(kOperators.begin(), kOperators.end(), operator_of(record)) != kOperators.end();
}

}  // namespace msprobe::trace

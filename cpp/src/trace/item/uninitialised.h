// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "msprobe/operators.h"
#include "msprobe/record_name.h"

namespace msprobe::trace {

/// Whether the result of a call, "Torch.empty_like.0.forward", holds whatever the memory held before: it says
/// nothing about a run.
inline bool is_uninitialised(std::string_view record) {
  return operators::find(RecordName(record).function()).is_uninitialised;
}

}  // namespace msprobe::trace

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "msprobe/error.h"
#include "msprobe/trace_compare.h"

inline const char* mode_name(msprobe::trace::Mode mode) {
  using msprobe::trace::Mode;
  switch (mode) {
    case Mode::kRealData: return "real_data";
    case Mode::kStatistics: return "statistics";
    case Mode::kMd5: return "md5";
    case Mode::kStructure: return "structure";
  }
  throw msprobe::InternalError("a mode of unknown kind");
}

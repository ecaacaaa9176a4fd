// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "msprobe/monitor.h"

/// The numbers of a step by series.
struct Numbers {
  std::vector<double> values;

  void set(std::uint32_t series, double value) {
    if (series >= values.size()) values.resize(series + 1, msprobe::monitor::absent());
    values[series] = value;
  }
  std::optional<double> get(std::uint32_t series) const {
    if (series >= values.size() || msprobe::monitor::is_absent(values[series])) return std::nullopt;
    return values[series];
  }
};

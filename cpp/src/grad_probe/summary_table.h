// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "msprobe/grad_probe.h"

namespace msprobe::grad_probe {

/// One column of grad_summary_{step}.csv.
struct Column {
  std::string header;
  std::function<std::string(const Measurement&)> cell;
};

/// The columns of a level, in the order of the file: the one place that names them.
std::vector<Column> columns(const Options& options);

/// The whole file, with byte order mark.
std::string summary_csv(const Options& options, std::span<const Measurement> measurements);

}  // namespace msprobe::grad_probe

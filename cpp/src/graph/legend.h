// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "msprobe/graph.h"

/// What the table tb_config says of colours and metrics.
namespace msprobe::graph {

/// A colour and the interval of the precision index that it stands for, [low, high); 1 belongs to the last.
struct Colour {
  std::string_view code;  // "#FFFCF3"
  double low = 0;
  double high = 0;
};

/// From good to bad; empty for kStructure.
std::span<const Colour> colours_of(Mode mode);

/// "summary", "md5", "all", "structure".
std::string_view task_name(Mode mode);

/// JSON: colour -> {"value": [low, high], "description": text}, and that of nodes without a match.
std::string colours_json(Mode mode);

/// JSON: metric -> what it is.
std::string metrics_json(Mode mode);

}  // namespace msprobe::graph

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "msprobe/error.h"
#include "msprobe/grad_probe.h"

/// Bounds of Python: (value, label).
using GradBounds = std::vector<std::pair<double, std::string>>;

/// Throws InvalidArgument for a layout that there is not.
inline msprobe::grad_probe::Layout grad_layout(const std::string& name) {
  using msprobe::grad_probe::Layout;
  if (name != "npy" && name != "packed") {
    throw msprobe::InvalidArgument(R"(layout must be one of "npy", "packed", found ")" + name + '"');
  }
  return name == "npy" ? Layout::kNpy : Layout::kPacked;
}

/// Options of a gradient probe as Python spells them. Throws InvalidArgument for a level that there is not.
inline msprobe::grad_probe::Options grad_probe_options(std::filesystem::path dump_path, int rank,
                                                       const std::string& level, const GradBounds& bounds,
                                                       const std::string& layout) {
  using msprobe::grad_probe::Level;
  msprobe::grad_probe::Options options;
  options.dump_path = std::move(dump_path);
  options.rank = rank;
  if (level != "L0" && level != "L1" && level != "L2") {
    throw msprobe::InvalidArgument(R"(grad_level must be one of "L0", "L1", "L2", found ")" + level + '"');
  }
  options.level = level == "L0" ? Level::kL0 : level == "L1" ? Level::kL1 : Level::kL2;
  for (const auto& [value, label] : bounds) options.bounds.push_back({value, label});
  options.layout = grad_layout(layout);
  return options;
}

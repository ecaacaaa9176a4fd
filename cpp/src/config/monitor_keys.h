// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "msprobe/config.h"

namespace msprobe::config {

/// The rows of the table that are of the monitor, its rules, and what its alarms do (tables.cpp).
std::span<const Key> keys_of_monitor();

}  // namespace msprobe::config

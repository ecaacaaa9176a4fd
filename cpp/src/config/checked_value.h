// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "msprobe/config.h"

namespace msprobe::config {

/// Throws for a value of which `problem` says what is wrong.
using Refuse = std::function<void(const std::string& problem, const Value& value)>;

/// The value of a key as its Type says.
Value checked_value(const Key& key, const Value& given, const Refuse& refuse);

}  // namespace msprobe::config

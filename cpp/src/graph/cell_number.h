// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace msprobe::graph {

/// Appends a number as the cells show it: at most six decimals, or an exponent.
void append_cell_number(std::string& out, double value);

}  // namespace msprobe::graph

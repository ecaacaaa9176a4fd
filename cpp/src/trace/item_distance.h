// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "msprobe/trace_reader.h"

namespace msprobe::trace {

/// Number of elements, from the text of a shape: 6 of "[2, 3]".
double element_count(std::string_view shape);

/// Root mean square of the elements of a tensor; 0: unknown.
double typical_element(const Trace& trace, const Item& item);

}  // namespace msprobe::trace

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "msprobe/trace.h"
#include "msprobe/trace_reader.h"

/// Infinities and NaN in what a record says.
namespace msprobe::trace {

/// Of a statistic or number, or of a text that stands in its place: the words nan, inf and infinity, in any
/// case, with or without a sign.
Badness badness(const Trace& trace, const Scalar& scalar) noexcept;

}  // namespace msprobe::trace

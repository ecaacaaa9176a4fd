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

Badness badness(double number) noexcept;

/// Whether the result of this call may hold a value that it was given, as that of masked_fill does: an
/// infinity that the program asked for.
bool is_fill(std::string_view record);

/// Whether that explains what a call has: infinities are the worst in its arguments and in its results.
bool is_deliberate_fill(std::string_view record, Badness worst_in, Badness worst_out);

}  // namespace msprobe::trace

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "msprobe/trace_reader.h"

/// How mindstudio-probe shows an item in its tables and graphs.
namespace msprobe::trace {

/// "torch.float32"; of other values the class of the JSON value: "<class 'int'>", "slice", "None".
std::string_view dtype_text(const Trace& trace, const Item& item);
/// "[2, 3]"; of values "[]", of None "None".
std::string_view shape_text(const Trace& trace, const Item& item);

/// What stands in the four columns max, min, mean, norm. Values stand in all four.
std::array<Scalar, 4> statistics_of(const Trace& trace, const Item& item);

/// The column "MD5": as recorded, of values the CRC-32 of their text as Python prints it; empty for None.
std::string md5_text(const Trace& trace, const Item& item);

}  // namespace msprobe::trace

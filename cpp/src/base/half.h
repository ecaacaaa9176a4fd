// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace msprobe {

/// 16-bit floats by their bits.
enum class Half : std::uint8_t { kFloat16, kBFloat16 };

/// Converts `count` 16-bit floats to float, with the widest vector instructions of this processor. Exact.
void widen_half(const std::uint16_t* data, std::size_t count, Half kind, float* out);

}  // namespace msprobe

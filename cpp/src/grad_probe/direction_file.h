// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "msprobe/grad_probe.h"

namespace msprobe::grad_probe {

/// Files of directions are written and read in pieces of this size. Two of them stay in the second-level
/// cache: what pread copies there is looked at before it leaves.
inline constexpr std::size_t kChunkBytes = 256 << 10;

/// One byte, 0 or 1, for each bit. `out` has room for 8 bytes per byte of `bits`.
void expand(std::span<const std::uint8_t> bits, std::uint8_t* out) noexcept;

/// Writes the signs of one gradient as a NumPy file of booleans, one byte per element. The file has its name
/// from the start: write into a temporary directory. `buffer` is scratch memory that the next call can use
/// again. Throws IoError.
void write_direction_file(const std::filesystem::path& path, const Measurement& measurement,
                          std::vector<std::uint8_t>& buffer);

}  // namespace msprobe::grad_probe

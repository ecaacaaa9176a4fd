// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace msprobe {

/// CRC-32 of zlib, gzip and PNG (polynomial 0xEDB88320, RFC 1952 section 8). `crc` is that of the bytes
/// before, 0 at the start.
std::uint32_t crc32(std::uint32_t crc, const void* data, std::size_t bytes) noexcept;

/// CRC-32 of A followed by B, from the CRC-32 of each and the length of B. CRC-32 is linear over GF(2):
/// appending n bytes multiplies the polynomial of A by x^(8n) modulo the generator.
std::uint32_t crc32_combine(std::uint32_t crc_a, std::uint32_t crc_b, std::uint64_t bytes_b) noexcept;

}  // namespace msprobe

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Entries of a zip archive as whole texts in memory.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace msprobe::io {

/// What the directory of an archive says of an entry.
struct ZipEntry {
  std::span<const std::uint8_t> data;  // its bytes in the archive
  std::uint32_t crc = 0;               // of the content
  bool compressed = false;             // by deflate
  std::uint64_t size = 0;              // of the content
};

/// The content of an entry. Every number is checked against the bytes before memory is taken for it. Throws
/// FormatError with `path` and `name`.
std::string content_of(const ZipEntry& entry, const std::string& path, std::string_view name);

/// One deflate stream (RFC 1951), for speed before size.
std::string deflated(std::string_view content);

}  // namespace msprobe::io

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

namespace msprobe::io {

/// A file of torch.save before torch 1.6: pickles one after another, then the memory of the storages.
struct LegacyParts {
  std::span<const std::uint8_t> description;                            // and what follows it
  std::uint64_t description_at = 0;                                     // in the file
  std::unordered_map<std::string, std::span<const std::uint8_t>> data;  // by the key of the storage
};

/// Whether a file that begins so has that format.
bool is_legacy_pt(std::string_view head) noexcept;

/// Finds the parts of such a file. Nothing is copied. Throws FormatError for a damaged file, UnsupportedError
/// for big-endian data, and for storages that are parts of others, which torch has not written since 0.4.
LegacyParts find_legacy_parts(std::span<const std::uint8_t> file, const std::string& path);

}  // namespace msprobe::io

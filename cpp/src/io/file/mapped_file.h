// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace msprobe::io {

/// A whole file as read-only memory.
class MappedFile {
 public:
  /// Throws IoError; also for a directory or another thing that is not a regular file.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::uint8_t> bytes() const noexcept { return bytes_; }

 private:
  std::span<const std::uint8_t> bytes_;
};

/// Reads a part of a mapped file into memory, in one go instead of page by page as it is touched. Nothing
/// happens where the system cannot; reading the part does the same later.
void read_ahead(std::span<const std::uint8_t> part) noexcept;

/// Takes a part of a mapped file, which is not needed for now, out of the memory of the process. It is read
/// again when it is touched.
void give_back(std::span<const std::uint8_t> part) noexcept;

}  // namespace msprobe::io

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace msprobe::io {

/// Writes a zip archive front to back, for data that passes through once: the checksum of an entry follows
/// its data. Stored entries begin at a multiple of 64 bytes, as in the files of torch.save. 64-bit records
/// appear only where a size or an offset needs them.
///
/// Every call appends what belongs before, between or after the data to `out`; what the caller does with
/// these bytes is its own affair, as long as all of them reach the archive in order. No file, no clock: equal
/// calls give equal bytes.
class ZipWriter {
 public:
  /// Appends a whole entry.
  void add(std::string_view name, std::string_view content, std::string& out);

  /// Appends the header of an entry; the caller then puts `size` bytes of data into the archive itself and
  /// calls end() with their CRC-32.
  void begin(std::string_view name, std::uint64_t size, std::string& out);
  void end(std::uint32_t crc, std::string& out);

  /// The same for an entry that the caller compresses (RFC 1951), with its length before and after at the
  /// end: each less than 4 GiB, or InvalidArgument.
  void begin_deflated(std::string_view name, std::string& out);
  void end_deflated(std::uint32_t crc, std::uint64_t stored_size, std::uint64_t size, std::string& out);

  /// Appends the directory. Nothing can follow.
  void finish(std::string& out);

 private:
  struct Entry {
    std::string name;
    std::uint64_t offset;  // of the header
    std::uint64_t size;
    std::uint64_t stored_size;
    std::uint32_t crc = 0;
    std::uint16_t method;
  };

  void put_descriptor(const Entry& entry, std::string& out);

  std::vector<Entry> entries_;
  std::uint64_t position_ = 0;
};

}  // namespace msprobe::io

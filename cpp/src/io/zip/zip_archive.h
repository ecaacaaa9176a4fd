// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/zip/deflated.h"

namespace msprobe::io {

/// The directory of a zip archive in memory, with every number checked: entries lie within the archive, do
/// not overlap, have one name each, and are stored as they are or compressed.
class ZipArchive {
 public:
  using Entry = ZipEntry;

  /// `path` is for messages; `bytes` must outlive the archive. Throws FormatError, naming the entry for one
  /// that is encrypted or out of place.
  ZipArchive(std::span<const std::uint8_t> bytes, const std::string& path);

  bool contains(std::string_view name) const { return entries_.contains(name); }

  /// Null where there is no entry of this name. Throws FormatError for one that is compressed.
  const Entry* find(std::string_view name) const;

  /// The content of an entry, decompressed where it is compressed; nullopt where there is no entry of this
  /// name. Throws FormatError for one that is damaged.
  std::optional<std::string> content(std::string_view name) const;

  /// Names of all entries, in no order.
  std::vector<std::string> names() const;

  /// Name of the entry whose header comes first in the archive; empty where there are none.
  std::string_view first_name() const noexcept { return first_name_; }

  /// Reads all data of an entry. Throws FormatError when its checksum is another one; a checksum of 0 stands
  /// for "not computed" (torch.serialization.set_crc32_options).
  void check(std::string_view name, const Entry& entry) const;

 private:
  std::string path_;
  std::unordered_map<std::string_view, Entry> entries_;  // names are in `bytes`
  std::string_view first_name_;
};

}  // namespace msprobe::io

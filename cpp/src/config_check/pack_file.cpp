// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/file/mapped_file.h"
#include "io/zip/deflated.h"
#include "io/zip/zip_format.h"
#include "msprobe/config_check.h"
#include "msprobe/error.h"

namespace msprobe::config_check {
namespace {

namespace zip = io::zip;
using Bytes = std::span<const std::uint8_t>;

// The bytes of an entry as they are in the file.
Bytes packed_bytes(Bytes file, const Entry& entry) {
  const auto refuse = [&](const std::string& problem) { throw FormatError(entry.name, "", problem); };
  if (entry.offset > file.size() || file.size() - entry.offset < zip::kLocalHeaderBytes) {
    refuse("its header is behind the end of the file");
  }
  const Bytes header = file.subspan(entry.offset, zip::kLocalHeaderBytes);
  if (zip::get<std::uint32_t>(header, 0) != zip::kLocalHeader) refuse("its header is damaged");
  const std::uint64_t begin = entry.offset + zip::kLocalHeaderBytes + zip::get<std::uint16_t>(header, 26) +
                              zip::get<std::uint16_t>(header, 28);
  if (begin > file.size() || file.size() - begin < entry.packed) refuse("its data is cut off");
  return file.subspan(begin, entry.packed);
}

}  // namespace

struct PackFile::File {
  explicit File(const std::filesystem::path& path) : mapped(path) {}
  io::MappedFile mapped;
};

PackFile::PackFile(const std::filesystem::path& path) : file_(std::make_unique<File>(path)) {}
PackFile::~PackFile() = default;

std::string PackFile::content(const Entry& entry) const {
  const Bytes packed = packed_bytes(file_->mapped.bytes(), entry);
  return io::content_of({packed, entry.crc, entry.deflated, entry.size}, entry.name, "");
}

}  // namespace msprobe::config_check

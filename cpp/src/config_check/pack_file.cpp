// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <libdeflate.h>

#include "io/file/mapped_file.h"
#include "io/zip/zip_format.h"
#include "msprobe/config_check.h"
#include "msprobe/error.h"

namespace msprobe::config_check {
namespace {

namespace zip = io::zip;
using Bytes = std::span<const std::uint8_t>;

constexpr std::uint64_t kMostShrinking = 1032;  // of deflate: a length of 258 bytes in 2 bits

struct DecompressorDeleter {
  void operator()(libdeflate_decompressor* one) const { libdeflate_free_decompressor(one); }
};

libdeflate_decompressor* decompressor() {
  thread_local const std::unique_ptr<libdeflate_decompressor, DecompressorDeleter> own{
      libdeflate_alloc_decompressor()};
  if (!own) throw std::bad_alloc();
  return own.get();
}

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
  const auto refuse = [&](const std::string& problem) { throw FormatError(entry.name, "", problem); };
  std::string result;
  if (!entry.deflated) {
    if (entry.size != entry.packed) refuse("its size is not what the zip says");
    result.assign(packed.begin(), packed.end());
  } else {
    if (entry.size / kMostShrinking > entry.packed) refuse("its size is not what the zip says");
    result.resize(entry.size);
    const libdeflate_result outcome = libdeflate_deflate_decompress(
        decompressor(), packed.data(), packed.size(), result.data(), result.size(), nullptr);
    if (outcome == LIBDEFLATE_BAD_DATA) refuse("its compressed data is damaged");
    if (outcome != LIBDEFLATE_SUCCESS) refuse("its size is not what the zip says");
  }
  if (libdeflate_crc32(0, result.data(), result.size()) != entry.crc) refuse("its checksum is another one");
  return result;
}

}  // namespace msprobe::config_check

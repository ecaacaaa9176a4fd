// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/zip/deflated.h"

#include <libdeflate.h>

#include <memory>
#include <new>

#include "msprobe/error.h"

namespace msprobe::io {
namespace {

constexpr std::uint64_t kMostShrinking = 1032;  // of deflate: a length of 258 bytes in 2 bits
constexpr int kFastestLevel = 1;                // level 6 takes three times as long for a sixth less

struct DeflateDeleter {
  void operator()(libdeflate_decompressor* one) const { libdeflate_free_decompressor(one); }
  void operator()(libdeflate_compressor* one) const { libdeflate_free_compressor(one); }
};

libdeflate_decompressor* decompressor() {
  thread_local const std::unique_ptr<libdeflate_decompressor, DeflateDeleter> own{
      libdeflate_alloc_decompressor()};
  if (!own) throw std::bad_alloc();
  return own.get();
}

}  // namespace

std::string content_of(const ZipEntry& entry, const std::string& path, std::string_view name) {
  const auto refuse = [&](const std::string& problem) {
    throw FormatError(path, std::string(name), problem);
  };
  std::string result;
  if (!entry.compressed) {
    if (entry.size != entry.data.size()) refuse("its size is not what the zip says");
    result.assign(entry.data.begin(), entry.data.end());
  } else {
    if (entry.size / kMostShrinking > entry.data.size()) refuse("its size is not what the zip says");
    result.resize(entry.size);
    const libdeflate_result outcome = libdeflate_deflate_decompress(
        decompressor(), entry.data.data(), entry.data.size(), result.data(), result.size(), nullptr);
    if (outcome == LIBDEFLATE_BAD_DATA) refuse("its compressed data is damaged");
    if (outcome != LIBDEFLATE_SUCCESS) refuse("its size is not what the zip says");
  }
  if (libdeflate_crc32(0, result.data(), result.size()) != entry.crc) refuse("its checksum is another one");
  return result;
}

std::string deflated(std::string_view content) {
  const std::unique_ptr<libdeflate_compressor, DeflateDeleter> compressor{
      libdeflate_alloc_compressor(kFastestLevel)};
  if (!compressor) throw std::bad_alloc();
  std::string result(libdeflate_deflate_compress_bound(compressor.get(), content.size()), '\0');
  result.resize(libdeflate_deflate_compress(compressor.get(), content.data(), content.size(), result.data(),
                                            result.size()));
  return result;
}

}  // namespace msprobe::io

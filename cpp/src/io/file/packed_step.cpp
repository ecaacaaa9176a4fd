// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/packed_step.h"

#include <algorithm>
#include <system_error>

#include "base/crc32.h"
#include "io/file/mapped_file.h"
#include "io/in_quotes.h"
#include "io/zip/deflated.h"
#include "io/zip/zip_archive.h"
#include "io/zip/zip_writer.h"
#include "msprobe/error.h"
#include "msprobe/file.h"

namespace msprobe::io {
namespace {

namespace fs = std::filesystem;

struct OpenArchive {
  explicit OpenArchive(const fs::path& path) : file(path), archive(file.bytes(), path.string()) {}
  MappedFile file;
  ZipArchive archive;
};

bool stands(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

}  // namespace

void write_packed_step(const fs::path& folder, std::span<const std::pair<std::string, std::string>> files) {
  ZipWriter zip;
  AtomicFile out(folder / kPackedStep);
  std::string piece;
  for (const auto& [name, content] : files) {
    const std::string packed = deflated(content);
    piece.clear();
    zip.begin_deflated(name, piece);
    piece += packed;
    zip.end_deflated(crc32(0, content.data(), content.size()), packed.size(), content.size(), piece);
    out.write(piece);
  }
  piece.clear();
  zip.finish(piece);
  out.write(piece);
  out.commit();
}

std::optional<std::string> read_packed(const fs::path& path) {
  const fs::path archive = path.parent_path() / kPackedStep;
  if (!stands(archive)) return std::nullopt;
  return OpenArchive(archive).archive.content(path.filename().string());
}

bool is_there(const fs::path& path) {
  if (stands(path)) return true;
  const fs::path archive = path.parent_path() / kPackedStep;
  if (!stands(archive)) return false;
  try {
    return OpenArchive(archive).archive.contains(path.filename().string());
  } catch (const Error&) {
    return true;
  }
}

std::vector<std::string> unpack_step(const fs::path& archive, const fs::path& folder) {
  const OpenArchive open(archive);
  std::vector<std::string> names = open.archive.names();
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const bool is_plain = !name.empty() && name.find('/') == std::string::npos && name.front() != '.';
    if (!is_plain) throw FormatError(archive.string(), in_quotes(name), "expected the name of a file");
  }
  make_directories(folder);
  for (const std::string& name : names) write_file(folder / name, open.archive.content(name).value_or(""));
  return names;
}

}  // namespace msprobe::io

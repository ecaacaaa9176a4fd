// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>

#include "io/table/xlsx_text.h"
#include "io/zip/deflate_stream.h"
#include "io/zip/zip_format.h"
#include "io/zip/zip_writer.h"
#include "msprobe/error.h"
#include "msprobe/file.h"
#include "msprobe/sheet.h"

// The cover is the last entry of the archive, so that all before it is copied as it stands.
namespace msprobe::io {
namespace {

constexpr std::size_t kOffsetInCentralHeader = 42;
constexpr std::size_t kNameLengthInCentralHeader = 28;
constexpr std::size_t kExtraLengthInCentralHeader = 30;
constexpr std::size_t kDirectorySizeInEnd = 12;
constexpr std::size_t kDirectoryOffsetInEnd = 16;

void set_long(std::string& record, std::size_t offset, std::uint32_t value) {
  std::string bytes;
  zip::put(bytes, value);
  record.replace(offset, bytes.size(), bytes);
}

// What is known of an archive of ours, which has no comment.
struct OwnDirectory {
  std::string entries;       // central headers of all but the last entry
  std::string name;          // of the last entry
  std::uint32_t offset = 0;  // of its local header
  std::string end;           // the end record
};

OwnDirectory read_directory(const InputFile& file) {
  const auto refuse = [&file](const std::string& found) {
    throw InvalidArgument(file.path().string() + ": expected a spreadsheet of msprobe with a cover, found " +
                          found);
  };
  const auto read = [&file](std::uint64_t offset, std::size_t size) {
    std::vector<std::uint8_t> bytes(size);
    file.read(offset, bytes);
    return bytes;
  };
  const auto text = [](std::span<const std::uint8_t> bytes) {
    return std::string(bytes.begin(), bytes.end());
  };
  if (file.size() < zip::kEndBytes) refuse("a file of " + std::to_string(file.size()) + " bytes");
  const auto end = read(file.size() - zip::kEndBytes, zip::kEndBytes);
  const std::uint64_t size = zip::get<std::uint32_t>(end, kDirectorySizeInEnd);
  const std::uint64_t begin = zip::get<std::uint32_t>(end, kDirectoryOffsetInEnd);
  if (zip::get<std::uint32_t>(end, 0) != zip::kEnd || begin + size + zip::kEndBytes != file.size()) {
    refuse("another end, or more than 4 GiB");
  }
  const auto entries = read(begin, static_cast<std::size_t>(size));
  std::size_t last = 0;
  for (std::size_t at = 0, next = 0; at < entries.size(); at = next) {
    if (entries.size() - at < zip::kCentralHeaderBytes) refuse("a damaged directory");
    last = at;
    next = at + zip::kCentralHeaderBytes + zip::get<std::uint16_t>(entries, at + kNameLengthInCentralHeader) +
           zip::get<std::uint16_t>(entries, at + kExtraLengthInCentralHeader);
    if (next > entries.size()) refuse("a damaged directory");
  }
  if (entries.empty()) refuse("nothing in it");
  const std::span<const std::uint8_t> all = entries;
  const std::size_t name_length = zip::get<std::uint16_t>(entries, last + kNameLengthInCentralHeader);
  OwnDirectory result{.entries = text(all.first(last)),
                      .name = text(all.subspan(last + zip::kCentralHeaderBytes, name_length)),
                      .offset = zip::get<std::uint32_t>(entries, last + kOffsetInCentralHeader),
                      .end = text(end)};
  if (!result.name.starts_with("xl/worksheets/") || result.offset > begin) refuse("none");
  return result;
}

// What `file` holds before `end`, appended to `out`.
void copy_head(const InputFile& file, std::uint64_t end, AtomicFile& out) {
  constexpr std::uint64_t kBlock = std::uint64_t{1} << 20;
  std::vector<std::uint8_t> block;
  for (std::uint64_t at = 0; at < end; at += block.size()) {
    block.resize(static_cast<std::size_t>(std::min(kBlock, end - at)));
    file.read(at, block);
    out.write(block.data(), block.size());
  }
}

}  // namespace

void replace_cover(const std::filesystem::path& path, std::span<const std::string> lines) {
  const InputFile present(path);
  OwnDirectory old = read_directory(present);
  std::string tail;
  ZipWriter zip;
  zip.begin_deflated(old.name, tail);
  ThreadPool pool(1);
  const std::function<void(std::string_view)> sink = [&tail](std::string_view bytes) { tail += bytes; };
  DeflateStream stream(pool, sink);
  stream.add(xlsx::cover_sheet(lines));
  const DeflateStream::Totals totals = stream.finish();
  zip.end_deflated(totals.crc, totals.stored_size, totals.size, tail);

  std::string entry;  // with an end record that knows of this entry only
  zip.finish(entry);
  entry.resize(zip::kCentralHeaderBytes + old.name.size());
  set_long(entry, kOffsetInCentralHeader, old.offset);
  const std::size_t directory = old.offset + tail.size();
  set_long(old.end, kDirectorySizeInEnd, static_cast<std::uint32_t>(old.entries.size() + entry.size()));
  set_long(old.end, kDirectoryOffsetInEnd, static_cast<std::uint32_t>(directory));
  tail += old.entries;
  tail += entry;
  tail += old.end;

  AtomicFile replacement(path);
  copy_head(present, old.offset, replacement);
  replacement.write(tail);
  replacement.commit();
}

}  // namespace msprobe::io

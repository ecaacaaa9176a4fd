// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>

#include "io/deflate_stream.h"
#include "io/xlsx_text.h"
#include "io/zip_format.h"
#include "io/zip_writer.h"
#include "msprobe/error.h"
#include "msprobe/file.h"
#include "msprobe/sheet.h"

// The cover is the last entry of the archive, so that another one takes its place without a copy of the rest.
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
struct Directory {
  std::string entries;       // central headers of all but the last entry
  std::string name;          // of the last entry
  std::uint32_t offset = 0;  // of its local header
  std::string end;           // the end record
};

Directory read_directory(const std::filesystem::path& path) {
  const auto refuse = [&path](const std::string& found) {
    throw InvalidArgument(path.string() + ": expected a spreadsheet of msprobe with a cover, found " + found);
  };
  const InputFile file(path);
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
  Directory result{.entries = text(all.first(last)),
                   .name = text(all.subspan(last + zip::kCentralHeaderBytes, name_length)),
                   .offset = zip::get<std::uint32_t>(entries, last + kOffsetInCentralHeader),
                   .end = text(end)};
  if (!result.name.starts_with("xl/worksheets/") || result.offset > begin) refuse("none");
  return result;
}

// The file ends with `tail` from `offset` on.
void replace_tail(const std::filesystem::path& path, std::uint64_t offset, const std::string& tail) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) throw IoError("cannot write", path.string(), errno);
  const ssize_t written = ::pwrite(descriptor, tail.data(), tail.size(), static_cast<off_t>(offset));
  int problem = written < 0 ? errno : static_cast<std::size_t>(written) < tail.size() ? ENOSPC : 0;
  if (problem == 0 && ::ftruncate(descriptor, static_cast<off_t>(offset + tail.size())) != 0) problem = errno;
  if (::close(descriptor) != 0 && problem == 0 && errno != EINTR) problem = errno;
  if (problem != 0) throw IoError("cannot write", path.string(), problem);
}

}  // namespace

void replace_cover(const std::filesystem::path& path, std::span<const std::string> lines) {
  Directory old = read_directory(path);
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
  replace_tail(path, old.offset, tail);
}

}  // namespace msprobe::io

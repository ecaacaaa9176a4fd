// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/zip/zip_archive.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/crc32.h"
#include "io/in_quotes.h"
#include "io/zip/zip_format.h"
#include "msprobe/error.h"

namespace msprobe::io {
namespace {

using zip::get;
using zip::kStored;
using zip::Long;
using zip::Short;
using LongLong = std::uint64_t;
using Bytes = std::span<const std::uint8_t>;

// An entry as the directory describes it.
struct Described {
  std::string_view name;
  std::uint64_t size = 0;    // in the archive
  std::uint64_t offset = 0;  // of the local header
  std::uint32_t crc = 0;
  bool compressed = false;
  std::uint64_t original = 0;  // bytes of its content
};

struct Directory {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t count = 0;
};

class DirectoryReader {
 public:
  DirectoryReader(Bytes bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  Directory find_directory() const {
    const std::size_t end = find_end();
    if (get<Short>(bytes_, end + 4) != 0 || get<Short>(bytes_, end + 6) != 0) {
      fail_at(end, "the archive is one of several parts, expected a whole one");
    }
    Directory result{get<Long>(bytes_, end + 16), get<Long>(bytes_, end + 12), get<Short>(bytes_, end + 10)};
    std::uint64_t limit = end;
    if (end >= zip::kZip64LocatorBytes &&
        get<Long>(bytes_, end - zip::kZip64LocatorBytes) == zip::kZip64Locator) {
      limit = read_zip64(end, result);
    }
    if (result.offset > limit || result.size != limit - result.offset) {
      fail_at(end, "the directory should end at byte " + std::to_string(limit) + ", found " +
                       std::to_string(result.size) + " bytes at byte " + std::to_string(result.offset));
    }
    if (result.count > result.size / zip::kCentralHeaderBytes) {
      fail_at(end, "a directory of " + std::to_string(result.size) + " bytes cannot have " +
                       std::to_string(result.count) + " entries");
    }
    return result;
  }

  std::vector<Described> read_directory(const Directory& directory) const {
    std::vector<Described> entries;
    entries.reserve(directory.count);
    std::uint64_t position = directory.offset;
    const std::uint64_t end = directory.offset + directory.size;
    for (std::uint64_t i = 0; i < directory.count; ++i) entries.push_back(read_central(position, end));
    if (position != end) fail_at(position, "expected the end of the directory after its last entry");
    return entries;
  }

  // Checks the header of an entry in front of its data, which has to end before `limit`.
  Bytes locate(const Described& entry, std::uint64_t limit) const {
    if (entry.offset > limit || limit - entry.offset < zip::kLocalHeaderBytes ||
        get<Long>(bytes_, entry.offset) != zip::kLocalHeader) {
      fail(entry, "expected its header at byte " + std::to_string(entry.offset));
    }
    const Short name = get<Short>(bytes_, entry.offset + 26);
    const Short extra = get<Short>(bytes_, entry.offset + 28);
    const std::uint64_t start = entry.offset + zip::kLocalHeaderBytes + name + extra;
    if (start > limit || text(entry.offset + zip::kLocalHeaderBytes, name) != entry.name) {
      fail(entry, "the header at byte " + std::to_string(entry.offset) + " has another name");
    }
    if ((get<Short>(bytes_, entry.offset + 8) != kStored) != entry.compressed) {
      fail(entry, "its header and the directory disagree about compression");
    }
    if (entry.size > limit - start) {
      fail(entry, "expected " + std::to_string(entry.size) + " bytes at byte " + std::to_string(start) +
                      ", found " + std::to_string(limit - start) + " up to the directory");
    }
    return bytes_.subspan(start, entry.size);
  }

  [[noreturn]] void fail(const Described& entry, const std::string& problem) const {
    throw FormatError(path_, in_quotes(entry.name), problem);
  }

 private:
  [[noreturn]] void fail_at(std::uint64_t offset, const std::string& problem) const {
    throw FormatError(path_, "byte " + std::to_string(offset), problem);
  }

  std::string_view text(std::uint64_t offset, std::size_t length) const {
    if (length > bytes_.size() - offset) return {};
    return {reinterpret_cast<const char*>(bytes_.data()) + offset, length};
  }

  // The last record is at the very end, but for a comment of at most 64 KiB.
  std::size_t find_end() const {
    constexpr std::size_t kLongestComment = 0xFFFF;
    if (bytes_.size() >= zip::kEndBytes) {
      const std::size_t last = bytes_.size() - zip::kEndBytes;
      for (std::size_t comment = 0; comment <= std::min(last, kLongestComment); ++comment) {
        const std::size_t end = last - comment;
        if (get<Long>(bytes_, end) == zip::kEnd && get<Short>(bytes_, end + 20) == comment) return end;
      }
    }
    fail_at(bytes_.size(), "expected the end record of a zip archive; the file is cut short or is none");
  }

  // Puts the 64-bit numbers into `directory`; returns where it has to end.
  std::uint64_t read_zip64(std::size_t end, Directory& directory) const {
    const std::size_t locator = end - zip::kZip64LocatorBytes;
    const auto record = get<LongLong>(bytes_, locator + 8);
    if (get<Long>(bytes_, locator + 4) != 0 || locator < zip::kZip64EndBytes ||
        record != locator - zip::kZip64EndBytes || get<Long>(bytes_, record) != zip::kZip64End ||
        get<LongLong>(bytes_, record + 4) != zip::kZip64EndBytes - 12 ||
        get<Long>(bytes_, record + 16) != 0 || get<Long>(bytes_, record + 20) != 0) {
      fail_at(locator, "expected the 64-bit end record right before its locator");
    }
    const Directory wide{get<LongLong>(bytes_, record + 48), get<LongLong>(bytes_, record + 40),
                         get<LongLong>(bytes_, record + 32)};
    const auto agrees = [](std::uint64_t narrow, std::uint64_t value, std::uint64_t in_zip64) {
      return narrow == value || narrow == in_zip64;
    };
    if (!agrees(directory.offset, wide.offset, zip::kInZip64Long) ||
        !agrees(directory.size, wide.size, zip::kInZip64Long) ||
        !agrees(directory.count, wide.count, zip::kInZip64)) {
      fail_at(end, "the end record and the 64-bit end record disagree");
    }
    directory = wide;
    return record;
  }

  Described read_central(std::uint64_t& position, std::uint64_t end) const {
    if (end - position < zip::kCentralHeaderBytes || get<Long>(bytes_, position) != zip::kCentralHeader) {
      fail_at(position, "expected an entry of the directory");
    }
    const std::uint64_t name = get<Short>(bytes_, position + 28);
    const std::uint64_t extra = get<Short>(bytes_, position + 30);
    const std::uint64_t comment = get<Short>(bytes_, position + 32);
    if (name + extra + comment > end - position - zip::kCentralHeaderBytes) {
      fail_at(position, "an entry of the directory is longer than the directory");
    }
    Described entry{text(position + zip::kCentralHeaderBytes, name), get<Long>(bytes_, position + 20),
                    get<Long>(bytes_, position + 42), get<Long>(bytes_, position + 16),
                    get<Short>(bytes_, position + 10) != kStored};
    if (get<Short>(bytes_, position + 8) & zip::kEncrypted) fail(entry, "the entry is encrypted");
    std::uint64_t original = get<Long>(bytes_, position + 24);
    read_extra(entry, original, bytes_.subspan(position + zip::kCentralHeaderBytes + name, extra));
    if (!entry.compressed && original != entry.size) {
      fail(entry, "a stored entry of " + std::to_string(original) + " bytes cannot take " +
                      std::to_string(entry.size));
    }
    entry.original = original;
    position += zip::kCentralHeaderBytes + name + extra + comment;
    return entry;
  }

  // The field with 64-bit numbers holds those that are marked as being there: original size, size in the
  // archive, offset.
  void read_extra(Described& entry, std::uint64_t& original, Bytes extra) const {
    while (extra.size() >= 4) {
      const Short id = get<Short>(extra, 0);
      const std::size_t length = get<Short>(extra, 2);
      if (length > extra.size() - 4) fail(entry, "an extra field is longer than its record");
      Bytes numbers = extra.subspan(4, length);
      extra = extra.subspan(4 + length);
      if (id != zip::kZip64Extra) continue;
      for (std::uint64_t* number : {&original, &entry.size, &entry.offset}) {
        if (*number != zip::kInZip64Long) continue;
        if (numbers.size() < 8) fail(entry, "a 64-bit number is missing");
        *number = get<LongLong>(numbers, 0);
        numbers = numbers.subspan(8);
      }
      return;
    }
  }

  Bytes bytes_;
  const std::string& path_;
};

}  // namespace

ZipArchive::ZipArchive(std::span<const std::uint8_t> bytes, const std::string& path) : path_(path) {
  const DirectoryReader reader(bytes, path);
  const Directory directory = reader.find_directory();
  std::vector<Described> described = reader.read_directory(directory);
  std::sort(described.begin(), described.end(),
            [](const Described& a, const Described& b) { return a.offset < b.offset; });
  entries_.reserve(described.size());
  for (std::size_t i = 0; i < described.size(); ++i) {
    const Described& entry = described[i];
    const Entry located{reader.locate(entry, directory.offset), entry.crc, entry.compressed, entry.original};
    const auto end = static_cast<std::uint64_t>(located.data.data() + located.data.size() - bytes.data());
    if (i + 1 < described.size() && described[i + 1].offset < end) {
      reader.fail(entry, "the entry overlaps with " + in_quotes(described[i + 1].name));
    }
    if (!entries_.emplace(entry.name, located).second)
      reader.fail(entry, "there are two entries of this name");
  }
  if (!described.empty()) first_name_ = described.front().name;
}

const ZipArchive::Entry* ZipArchive::find(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return nullptr;
  if (found->second.compressed) {
    throw FormatError(path_, in_quotes(name),
                      "the entry is compressed, expected one that is stored as torch.save does");
  }
  return &found->second;
}

std::optional<std::string> ZipArchive::content(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return std::nullopt;
  return content_of(found->second, path_, name);
}

std::vector<std::string> ZipArchive::names() const {
  std::vector<std::string> names;
  names.reserve(entries_.size());
  for (const auto& [name, entry] : entries_) names.emplace_back(name);
  return names;
}

void ZipArchive::check(std::string_view name, const Entry& entry) const {
  if (entry.crc == 0) return;
  const std::uint32_t found = crc32(0, entry.data.data(), entry.data.size());
  if (found != entry.crc)
    throw FormatError(path_, in_quotes(name), "the data is damaged: its checksum differs");
}

}  // namespace msprobe::io

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/zip/zip_writer.h"

#include <algorithm>

#include "base/crc32.h"
#include "io/zip/zip_format.h"
#include "msprobe/error.h"

namespace msprobe::io {
namespace {

using zip::kDeflated;
using zip::kStored;
using zip::Long;
using zip::put;
using zip::Short;

constexpr std::size_t kEntryAlignment = 64;
constexpr Short kFlags = zip::kSizesFollowData | zip::kUtf8Names;
constexpr Short kNewYear1980 = 1 << 5 | 1;  // day and month from 1: the earliest date of the format
constexpr Short kVersion = 10;              // what a reader has to know: 1.0, 2.0 for deflate,
constexpr Short kVersionDeflate = 20;       // or 4.5 for 64-bit sizes
constexpr Short kVersionZip64 = 45;
constexpr Short kPaddingExtra = 0x4246;  // "FB", the id torch gives to its padding

bool needs_zip64(std::uint64_t value) { return value >= zip::kInZip64Long; }

Short version(bool zip64, Short method) {
  return zip64 ? kVersionZip64 : method == kDeflated ? kVersionDeflate : kVersion;
}

// The common beginning of both headers: version needed, flags, method, time and date.
void put_properties(std::string& out, bool zip64, Short method) {
  put(out, version(zip64, method));
  put(out, kFlags);
  put(out, method);
  put(out, Short{0});
  put(out, kNewYear1980);
}

}  // namespace

void ZipWriter::add(std::string_view name, std::string_view content, std::string& out) {
  begin(name, content.size(), out);
  out += content;
  end(crc32(0, content.data(), content.size()), out);
}

void ZipWriter::begin(std::string_view name, std::uint64_t size, std::string& out) {
  const bool zip64 = needs_zip64(size);
  constexpr std::size_t kExtraHeader = 4;
  constexpr std::size_t kSizes = 16;
  const std::size_t zip64_bytes = zip64 ? kExtraHeader + kSizes : 0;
  const std::uint64_t unpadded =
      position_ + zip::kLocalHeaderBytes + name.size() + zip64_bytes + kExtraHeader;
  const std::size_t padding = (kEntryAlignment - unpadded % kEntryAlignment) % kEntryAlignment;

  put(out, zip::kLocalHeader);
  put_properties(out, zip64, kStored);
  put(out, Long{0});  // checksum and both sizes follow the data
  put(out, zip64 ? zip::kInZip64Long : Long{0});
  put(out, zip64 ? zip::kInZip64Long : Long{0});
  put(out, static_cast<Short>(name.size()));
  put(out, static_cast<Short>(zip64_bytes + kExtraHeader + padding));
  out += name;
  if (zip64) {
    put(out, zip::kZip64Extra);
    put(out, static_cast<Short>(kSizes));
    out.append(kSizes, '\0');
  }
  put(out, kPaddingExtra);
  put(out, static_cast<Short>(padding));
  out.append(padding, 'Z');

  entries_.push_back({std::string(name), position_, size, size, 0, kStored});
  position_ = unpadded + padding + size;
}

void ZipWriter::end(std::uint32_t crc, std::string& out) {
  entries_.back().crc = crc;
  put_descriptor(entries_.back(), out);
}

void ZipWriter::begin_deflated(std::string_view name, std::string& out) {
  put(out, zip::kLocalHeader);
  put_properties(out, false, kDeflated);
  out.append(3 * sizeof(Long), '\0');  // checksum and both sizes follow the data
  put(out, static_cast<Short>(name.size()));
  put(out, Short{0});  // nothing extra
  out += name;
  entries_.push_back({std::string(name), position_, 0, 0, 0, kDeflated});
  position_ += zip::kLocalHeaderBytes + name.size();
}

void ZipWriter::end_deflated(std::uint32_t crc, std::uint64_t stored_size, std::uint64_t size,
                             std::string& out) {
  Entry& entry = entries_.back();
  if (needs_zip64(std::max(stored_size, size))) {
    throw InvalidArgument("zip: \"" + entry.name + "\" has " + std::to_string(size) +
                          " bytes, expected less than 4 GiB in a compressed entry");
  }
  entry.crc = crc;
  entry.size = size;
  entry.stored_size = stored_size;
  position_ += stored_size;
  put_descriptor(entry, out);
}

void ZipWriter::put_descriptor(const Entry& entry, std::string& out) {
  const std::size_t before = out.size();
  put(out, zip::kDataDescriptor);
  put(out, entry.crc);
  for (const std::uint64_t size : {entry.stored_size, entry.size}) {
    if (needs_zip64(entry.size)) {
      put(out, size);
    } else {
      put(out, static_cast<Long>(size));
    }
  }
  position_ += out.size() - before;
}

void ZipWriter::finish(std::string& out) {
  const std::size_t before = out.size();
  for (const Entry& entry : entries_) {
    std::string extra;
    if (needs_zip64(entry.size)) {
      put(extra, entry.size);
      put(extra, entry.size);
    }
    if (needs_zip64(entry.offset)) put(extra, entry.offset);
    const auto in_long = [&entry](std::uint64_t size) {
      return needs_zip64(entry.size) ? zip::kInZip64Long : static_cast<Long>(size);
    };

    put(out, zip::kCentralHeader);
    // Made by; the high byte says MS-DOS, whose attributes mean nothing here.
    put(out, version(!extra.empty(), entry.method));
    put_properties(out, !extra.empty(), entry.method);
    put(out, entry.crc);
    put(out, in_long(entry.stored_size));
    put(out, in_long(entry.size));
    put(out, static_cast<Short>(entry.name.size()));
    put(out, static_cast<Short>(extra.empty() ? 0 : 4 + extra.size()));
    out.append(2 + 2 + 2 + 4, '\0');  // length of the comment, disk, attributes inside and outside
    put(out, needs_zip64(entry.offset) ? zip::kInZip64Long : static_cast<Long>(entry.offset));
    out += entry.name;
    if (extra.empty()) continue;
    put(out, zip::kZip64Extra);
    put(out, static_cast<Short>(extra.size()));
    out += extra;
  }

  const std::uint64_t count = entries_.size();
  const std::uint64_t bytes = out.size() - before;
  if (needs_zip64(position_)) {
    put(out, zip::kZip64End);
    put(out, std::uint64_t{zip::kZip64EndBytes - 12});  // without this number and the signature
    put(out, kVersionZip64);
    put(out, kVersionZip64);
    put(out, Long{0});  // this disk, and the one with the directory
    put(out, Long{0});
    put(out, count);  // on this disk, and in all
    put(out, count);
    put(out, bytes);
    put(out, position_);

    put(out, zip::kZip64Locator);
    put(out, Long{0});  // disk
    put(out, position_ + bytes);
    put(out, Long{1});  // number of disks
  }
  put(out, zip::kEnd);
  put(out, Long{0});  // two disk numbers
  put(out, static_cast<Short>(count));
  put(out, static_cast<Short>(count));
  put(out, static_cast<Long>(bytes));
  put(out, needs_zip64(position_) ? zip::kInZip64Long : static_cast<Long>(position_));
  put(out, Short{0});  // length of the comment
}

}  // namespace msprobe::io

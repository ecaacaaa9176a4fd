// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/zip_writer.h"

#include "base/crc32.h"
#include "io/zip_format.h"

namespace msprobe::io {
namespace {

using zip::put;
using Short = std::uint16_t;
using Long = std::uint32_t;

constexpr std::size_t kAlignment = 64;
constexpr Short kFlags = zip::kSizesFollowData | zip::kUtf8Names;
constexpr Short kStored = 0;
constexpr Short kNewYear1980 = 1 << 5 | 1;  // day and month from 1: the earliest date of the format
constexpr Short kVersion = 10;              // what a reader has to know: 1.0, or 4.5 for 64-bit sizes
constexpr Short kVersionZip64 = 45;
constexpr Short kPaddingExtra = 0x4246;  // "FB", the id torch gives to its padding

bool needs_zip64(std::uint64_t value) { return value >= zip::kInZip64Long; }

Short version(bool zip64) { return zip64 ? kVersionZip64 : kVersion; }

// The common beginning of both headers: version needed, flags, method, time and date.
void put_properties(std::string& out, bool zip64) {
  put(out, version(zip64));
  put(out, kFlags);
  put(out, kStored);
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
  const std::size_t padding = (kAlignment - unpadded % kAlignment) % kAlignment;

  put(out, zip::kLocalHeader);
  put_properties(out, zip64);
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

  entries_.push_back({std::string(name), position_, size, 0});
  position_ = unpadded + padding + size;
}

void ZipWriter::end(std::uint32_t crc, std::string& out) {
  Entry& entry = entries_.back();
  entry.crc = crc;
  const std::size_t before = out.size();
  put(out, zip::kDataDescriptor);
  put(out, crc);
  for (int i = 0; i < 2; ++i) {  // stored and original size
    if (needs_zip64(entry.size)) {
      put(out, entry.size);
    } else {
      put(out, static_cast<Long>(entry.size));
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
    const auto size = needs_zip64(entry.size) ? zip::kInZip64Long : static_cast<Long>(entry.size);

    put(out, zip::kCentralHeader);
    put(out,
        version(!extra.empty()));  // made by; the high byte says MS-DOS, whose attributes mean nothing here
    put_properties(out, !extra.empty());
    put(out, entry.crc);
    put(out, size);
    put(out, size);
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

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/crc32.h"
#include "catch.h"
#include "io/file/mapped_file.h"
#include "io/zip/zip_archive.h"
#include "io/zip/zip_format.h"
#include "io/zip/zip_writer.h"
#include "msprobe/error.h"
#include "temp_dir.h"

namespace msprobe::io {
namespace {

using test::TempDir;

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::string_view text_of(const ZipArchive::Entry* entry) {
  REQUIRE(entry != nullptr);
  return {reinterpret_cast<const char*>(entry->data.data()), entry->data.size()};
}

std::string two_entries() {
  ZipWriter zip;
  std::string file;
  zip.add("a/first", "hello", file);
  zip.add("a/second", "", file);
  zip.finish(file);
  return file;
}

std::string zip_refusal(const std::string& file) {
  try {
    const ZipArchive archive(bytes_of(file), "x.zip");
    for (const char* name : {"a/first", "a/second"}) {
      if (const auto* entry = archive.find(name)) archive.check(name, *entry);
    }
  } catch (const FormatError& error) {
    CHECK(error.path() == "x.zip");
    return std::string(error.what()).substr(7);
  }
  return "accepted";
}

template <typename T>
std::string patched(std::string file, std::size_t offset, T value) {
  std::string bytes;
  zip::put(bytes, value);
  return file.replace(offset, bytes.size(), bytes);
}

using zip::Long;
using zip::Short;

TEST_CASE("ZipWriter: ZipArchive reads it, data begins at multiples of 64") {
  const std::string file = two_entries();
  const ZipArchive archive(bytes_of(file), "x.zip");
  CHECK(archive.first_name() == "a/first");
  CHECK(text_of(archive.find("a/first")) == "hello");
  CHECK(text_of(archive.find("a/second")).empty());
  CHECK(archive.find("a/third") == nullptr);
  CHECK((archive.find("a/first")->data.data() - bytes_of(file).data()) % 64 == 0);
  CHECK((archive.find("a/second")->data.data() - bytes_of(file).data()) % 64 == 0);
  CHECK(archive.find("a/first")->crc == 0x3610A686);  // of "hello", as gzip has it
  CHECK(two_entries() == file);
}

TEST_CASE("ZipWriter and ZipArchive: 64-bit sizes and offsets") {
  // A sparse file: the entries are there, most of the disk is not.
  constexpr std::uint64_t kLarge = (std::uint64_t{4} << 30) + 7;
  const TempDir dir;
  ZipWriter zip;
  std::string head;
  std::string tail;
  zip.begin("a/large", kLarge, head);
  zip.end(0, tail);
  zip.add("a/behind", "found", tail);
  zip.finish(tail);
  {
    std::ofstream file(dir / "large", std::ios::binary);
    file.write(head.data(), static_cast<std::streamsize>(head.size()));
    file.seekp(static_cast<std::streamoff>(head.size() + kLarge));
    file.write(tail.data(), static_cast<std::streamsize>(tail.size()));
  }
  const MappedFile mapped(dir / "large");
  const ZipArchive archive(mapped.bytes(), "large");
  CHECK(archive.find("a/large")->data.size() == kLarge);
  CHECK(text_of(archive.find("a/behind")) == "found");
  CHECK((archive.find("a/behind")->data.data() - mapped.bytes().data()) % 64 == 0);
}

TEST_CASE("ZipArchive: a file cut short anywhere is refused") {
  const std::string file = two_entries();
  for (std::size_t n = 0; n < file.size(); ++n) CHECK(zip_refusal(file.substr(0, n)) != "accepted");
  CHECK(zip_refusal("") ==
        "byte 0: expected the end record of a zip archive; the file is cut short or is none");
  CHECK(zip_refusal(file + "x").find("expected the end record") != std::string::npos);
}

TEST_CASE("ZipArchive: any changed byte is refused or does no harm") {
  const std::string file = two_entries();
  for (std::size_t i = 0; i < file.size(); ++i) {
    for (const int value : {0x00, 0x01, 0x7F, 0x80, 0xFF}) {
      std::string damaged = file;
      damaged[i] = static_cast<char>(value);
      zip_refusal(damaged);
    }
  }
}

TEST_CASE("ZipArchive: random bytes changed in groups") {
  const std::string file = two_entries();
  std::mt19937 random(1);  // NOLINT: the same every time
  for (int i = 0; i < 20000; ++i) {
    std::string damaged = file;
    for (std::uint32_t n = 1 + random() % 6; n > 0; --n)
      damaged[random() % file.size()] = static_cast<char>(random());
    zip_refusal(damaged);
  }
}

TEST_CASE("ZipArchive: numbers that do not fit") {
  const std::string file = two_entries();
  const std::size_t end = file.size() - zip::kEndBytes;
  const std::size_t directory = zip::get<Long>(bytes_of(file), end + 16);
  const std::size_t second = directory + zip::kCentralHeaderBytes + std::string("a/first").size();

  CHECK(zip_refusal(patched(file, end + 10, Short{3})).find("cannot have 3 entries") != std::string::npos);
  CHECK(zip_refusal(patched(file, end + 10, Short{0xFFFF})).find("cannot have 65535 entries") !=
        std::string::npos);
  CHECK(zip_refusal(patched(file, end + 10, Short{1})).find("expected the end of the directory") !=
        std::string::npos);
  CHECK(zip_refusal(patched(file, end + 16, Long{0xFFFFFFF0})).find("the directory should end at byte") !=
        std::string::npos);
  CHECK(zip_refusal(patched(file, end + 4, Short{1})).find("one of several parts") != std::string::npos);
  // Of the first entry: both sizes, then only one of them, offset, name, flags, method.
  const std::string large = patched(patched(file, directory + 20, Long{5000}), directory + 24, Long{5000});
  CHECK(zip_refusal(large) == "\"a/first\": expected 5000 bytes at byte 64, found " +
                                  std::to_string(directory - 64) + " up to the directory");
  CHECK(zip_refusal(patched(file, directory + 24, Long{4})) ==
        "\"a/first\": a stored entry of 4 bytes cannot take 5");
  CHECK(zip_refusal(patched(file, directory + 24, Long{0xFFFFFFFF})).find("cannot take 5") !=
        std::string::npos);
  CHECK(zip_refusal(patched(file, directory + 42, Long{1})) == "\"a/first\": expected its header at byte 1");
  CHECK(zip_refusal(patched(file, directory + 42, Long{0xFFFFFFF0})).find("expected its header") !=
        std::string::npos);
  CHECK(zip_refusal(patched(file, directory + 46, Short{0x6262})).find("has another name") !=
        std::string::npos);
  CHECK(zip_refusal(patched(file, directory + 8, Short{1})) == "\"a/first\": the entry is encrypted");
  CHECK(zip_refusal(patched(file, directory + 10, Short{8})).find("disagree about compression") !=
        std::string::npos);
  CHECK(zip_refusal(patched(patched(file, directory + 10, Short{8}), 8, Short{8})) ==
        "\"a/first\": the entry is compressed, expected one that is stored as torch.save does");
  CHECK(zip_refusal(patched(file, directory + 30, Short{0xFFFF})).find("longer than the directory") !=
        std::string::npos);
  // The first entry reaches into the second.
  const std::string overlap = patched(patched(file, directory + 20, Long{40}), directory + 24, Long{40});
  CHECK(zip_refusal(overlap) == "\"a/first\": the entry overlaps with \"a/second\"");
  CHECK(zip_refusal(patched(file, directory + 16, Long{1})) ==
        "\"a/first\": the data is damaged: its checksum differs");
  CHECK(zip_refusal(patched(file, directory + 16, Long{0})) == "accepted");  // was not computed
  CHECK(zip_refusal(patched(file, second, Long{0})) ==
        "byte " + std::to_string(second) + ": expected an entry of the directory");
  // Two names for the same data.
  CHECK(zip_refusal(patched(file, second + 42, Long{0})) != "accepted");
}

TEST_CASE("ZipArchive: two entries of one name") {
  ZipWriter zip;
  std::string file;
  zip.add("a/first", "1", file);
  zip.add("a/first", "2", file);
  zip.finish(file);
  CHECK(zip_refusal(file) == "\"a/first\": there are two entries of this name");
}

TEST_CASE("ZipArchive: a comment after the end record, an empty archive") {
  std::string file = two_entries();
  file = patched(file, file.size() - 2, Short{3}) + "abc";
  CHECK(zip_refusal(file) == "accepted");
  ZipWriter zip;
  std::string empty;
  zip.finish(empty);
  CHECK(zip_refusal(empty) == "accepted");
  CHECK(ZipArchive(bytes_of(empty), "x").first_name().empty());
}

}  // namespace
}  // namespace msprobe::io

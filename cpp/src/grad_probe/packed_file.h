// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/content_hash.h"
#include "msprobe/file.h"

/// The packed record of a rank: all steps in one file that only grows (docs/formats/grad_probe.md, 1.4).
namespace msprobe::grad_probe {

inline constexpr std::string_view kPackedName = "gradients.msprobe";

/// The signs of one gradient in a packed record.
struct PackedSigns {
  std::vector<std::int64_t> shape;
  bool fortran_order = false;
  std::int64_t count = 0;    // of elements
  int keeper = -1;           // the rank whose record has the bits; -1: this one
  std::uint64_t offset = 0;  // of the bits in the file
  ContentHash hash;          // of the bits
};

struct PackedStep {
  bool has_signs = false;  // false: level L0
  std::string summary;     // the csv file of the step, as it is in the other layout
  std::map<std::string, PackedSigns, std::less<>> signs;
};

/// Reads the descriptions of all steps, and bits when they are asked for. Nothing in the file is believed
/// before it is checked. Thread-safe once it is made.
class PackedFile {
 public:
  /// Throws IoError, and FormatError for a file that is no packed record.
  explicit PackedFile(const std::filesystem::path& path);

  /// By number; of a step that was recorded again the later one.
  const std::map<std::int64_t, PackedStep>& steps() const noexcept { return steps_; }
  /// Null: there is none.
  const PackedSigns* find(std::int64_t step, std::string_view name) const;

  /// Where the last whole step ends, and why the file goes on behind it; empty: it does not.
  std::uint64_t end() const noexcept { return end_; }
  const std::string& cut() const noexcept { return cut_; }

  /// Bytes of the bits, of which the first one is byte `first`.
  void read_bits(const PackedSigns& signs, std::uint64_t first, std::span<std::uint8_t> out) const;
  /// Throws FormatError when the bits are not those that were written.
  void check(const PackedSigns& signs, std::string_view name) const;

  const std::filesystem::path& path() const noexcept { return file_.path(); }

 private:
  bool read_step();  // false: there is no other whole one

  io::InputFile file_;
  std::map<std::int64_t, PackedStep> steps_;
  std::uint64_t end_ = 0;
  std::string cut_;
};

/// One gradient for PackedWriter. `bits` are empty where another rank keeps them.
struct SignsToPack {
  std::string_view name;
  std::span<const std::int64_t> shape;
  bool fortran_order;
  int keeper;
  ContentHash hash;
  std::span<const std::uint8_t> bits;
};

/// Appends steps to the file of a rank, which is made where there is none. Of an earlier record the whole
/// steps stay. Not thread-safe; of several processes that write one file the later
/// ones are refused.
class PackedWriter {
 public:
  /// Throws IoError, and FormatError for a file that is no packed record.
  explicit PackedWriter(std::filesystem::path path);
  ~PackedWriter();
  PackedWriter(const PackedWriter&) = delete;
  PackedWriter& operator=(const PackedWriter&) = delete;

  /// The step is in the file when it returns, whatever happens to this process; when it throws IoError, the
  /// file is as it was. A file that somebody has removed is made anew.
  void append(std::int64_t step, bool has_signs, std::string_view summary,
              std::span<const SignsToPack> signs);

 private:
  void open();
  bool is_as_left() const noexcept;
  void close() noexcept;
  void lock() const;
  [[noreturn]] void refuse() const;
  std::uint64_t size() const;
  void write(std::string_view bytes);
  void flush();

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t end_ = 0;  // of the last whole step
  std::string buffer_;     // of what is written next
};

}  // namespace msprobe::grad_probe

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "msprobe/export.h"

namespace msprobe::io {

/// Permissions of what msprobe creates: directories 0750, files 0640 (less the umask), as mindstudio-probe
/// does.
inline constexpr unsigned kDirectoryMode = 0750;
inline constexpr unsigned kFileMode = 0640;

/// Creates `path` and its missing parents. Throws IoError, also when a part of the path is a file.
MSPROBE_API void make_directories(const std::filesystem::path& path);

/// The one function that opens files: as open(2), but for a regular file alone. A pipe would keep its reader
/// waiting for ever, and a device may have no end. -1 with errno, which is EISDIR or EINVAL for what is none.
MSPROBE_API int open_regular(const std::filesystem::path& path, int flags) noexcept;

/// The same for reading; throws IoError where it cannot be opened, or is none.
int open_to_read(const std::filesystem::path& path);

/// Writes all of it where the descriptor stands; throws IoError, which names `path`.
void write_all(int descriptor, const std::filesystem::path& path, const void* data, std::size_t bytes);

/// Appends to a file, which is made where there is none, and is no link. Where not all of the text can be
/// written none of it stays. Throws IoError.
MSPROBE_API void append_text(const std::filesystem::path& path, std::string_view text);

/// A file that is complete or absent: it is written under a temporary name in the same directory and gets its
/// own name in commit(). Without commit() the destructor removes it. Not thread-safe. Every failure is an
/// IoError that names `path`.
class MSPROBE_API AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Where the content is until commit(), for a library that opens its file itself.
  const std::filesystem::path& temporary() const noexcept { return temporary_; }
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

/// A file written under its own name from the start, for a directory that nobody looks into yet: it saves the
/// rename. An existing file is replaced. Not thread-safe. Every failure is an IoError that names `path`.
class MSPROBE_API OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* data, std::size_t bytes);
  /// Some file systems report a full disk only here.
  void close();

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// Writes a whole file by AtomicFile.
MSPROBE_API void write_file(const std::filesystem::path& path, std::string_view text);

/// A file opened for reading. Reads at an offset; never maps, so a file cut short while in use is an error,
/// not a signal.
class MSPROBE_API InputFile {
 public:
  /// A file that is not there is read from the packed step beside it (packed_step.h), as if it were.
  /// Throws IoError; also for a directory or another thing that is not a regular file.
  explicit InputFile(std::filesystem::path path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::uint64_t size() const noexcept { return size_; }
  const std::filesystem::path& path() const noexcept { return path_; }

  /// Fills `out` from `offset`. Throws FormatError when the file ends before.
  void read(std::uint64_t offset, std::span<std::uint8_t> out) const;

  /// Tells the system that the file will be read from front to back.
  void advise_sequential() const noexcept;

 private:
  void read_from_packed(std::uint64_t offset, std::span<std::uint8_t> out) const;
  [[noreturn]] void refuse_end(std::uint64_t end, std::size_t missing) const;

  std::filesystem::path path_;
  int descriptor_ = -1;  // -1: packed_ is the content
  std::uint64_t size_ = 0;
  std::string packed_;
};

}  // namespace msprobe::io

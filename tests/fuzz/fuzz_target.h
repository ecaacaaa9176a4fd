// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What all fuzz targets share. A target is one file with one function: it gives any bytes to a reader and
/// checks what the reader promises. Refusing is fine, by FormatError or UnsupportedError; another exception,
/// a crash, a sanitizer's report or a broken promise is a finding.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "msprobe/error.h"

/// What libFuzzer calls, and replay.cpp.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace msprobe::fuzz {

inline std::string_view as_text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Ends the process as a crash does, unless the reader kept this promise.
inline void promise(bool kept, const char* what) {
  if (kept) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

/// Runs `read` and checks that what it throws is a refusal, in words.
template <typename Read>
void refuse_or(const Read& read) {
  try {
    read();
  } catch (const FormatError& error) {
    promise(std::string_view(error.what()).size() > 3, "a refusal says why");
  } catch (const UnsupportedError& error) {
    promise(std::string_view(error.what()).size() > 3, "a refusal says why");
  }
}

/// A file in memory, for readers that want a path. Overwritten by each input.
class MemoryFile {
 public:
  MemoryFile();
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  void write(const void* data, std::size_t size);
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  int descriptor_;
  std::filesystem::path path_;
};

/// A folder in memory where there is one, removed at the end.
class MemoryFolder {
 public:
  MemoryFolder();
  ~MemoryFolder();
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace msprobe::fuzz

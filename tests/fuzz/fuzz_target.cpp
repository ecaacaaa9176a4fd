// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "fuzz_target.h"

#include <sys/mman.h>
#include <unistd.h>

#include <string>

namespace msprobe::fuzz {
namespace {

// The machine failed, not the reader.
void need(bool worked, const char* what) {
  if (worked) return;
  std::perror(what);
  std::_Exit(2);
}

}  // namespace

MemoryFile::MemoryFile() : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
  need(descriptor_ >= 0, "memfd_create");
  path_ = "/proc/self/fd/" + std::to_string(descriptor_);
}

MemoryFile::~MemoryFile() { ::close(descriptor_); }

void MemoryFile::write(const void* data, std::size_t size) {
  need(::ftruncate(descriptor_, 0) == 0, "ftruncate");
  if (size == 0) return;
  need(::pwrite(descriptor_, data, size, 0) == static_cast<ssize_t>(size), "pwrite");
}

MemoryFolder::MemoryFolder() {
  const std::filesystem::path memory = "/dev/shm";
  const bool usable = ::access(memory.c_str(), W_OK) == 0;
  std::string name =
      ((usable ? memory : std::filesystem::temp_directory_path()) / "msprobe_fuzz_XXXXXX").string();
  need(::mkdtemp(name.data()) != nullptr, "mkdtemp");
  path_ = name;
}

MemoryFolder::~MemoryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace msprobe::fuzz

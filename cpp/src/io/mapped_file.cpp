// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "msprobe/error.h"

namespace msprobe::io {
namespace {

class Descriptor {
 public:
  explicit Descriptor(const std::filesystem::path& path) {
    // O_NONBLOCK: opening a named pipe must not wait for a writer; regular files ignore it.
    do {
      value_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    } while (value_ < 0 && errno == EINTR);
    if (value_ < 0) throw IoError("cannot open", path.string(), errno);
  }
  ~Descriptor() { ::close(value_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const noexcept { return value_; }

 private:
  int value_ = -1;
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  const Descriptor file(path);
  struct stat status{};
  const int reason = ::fstat(file.get(), &status) != 0 ? errno
                     : S_ISREG(status.st_mode)         ? 0
                     : S_ISDIR(status.st_mode)         ? EISDIR
                                                       : EINVAL;
  if (reason != 0) {
    throw IoError("cannot read, because it is not a regular file:", path.string(), reason);
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return;  // cannot be mapped
  void* const data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) throw IoError("cannot map", path.string(), errno);
  bytes_ = {static_cast<const std::uint8_t*>(data), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::uint8_t*>(bytes_.data()), bytes_.size());
}

}  // namespace msprobe::io

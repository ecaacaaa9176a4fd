// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/file/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "msprobe/error.h"
#include "msprobe/file.h"

namespace msprobe::io {
namespace {

class Descriptor {
 public:
  explicit Descriptor(const std::filesystem::path& path) : value_(open_to_read(path)) {}
  ~Descriptor() { ::close(value_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const noexcept { return value_; }

 private:
  int value_;
};

#ifdef __linux__
// Of the pages that hold a part: all of them, or those that hold nothing else.
void advise(std::span<const std::uint8_t> part, bool whole_pages_only, int advice) noexcept {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(part.data());
  const std::uintptr_t end = begin + part.size();
  const std::uintptr_t first = (whole_pages_only ? begin + page - 1 : begin) / page * page;
  const std::uintptr_t last = (whole_pages_only ? end : end + page - 1) / page * page;
  // The address is that of a mapping; which function of the system wants it as a pointer is its own business.
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, advice);  // NOLINT
}
#endif

}  // namespace

void read_ahead(std::span<const std::uint8_t> part) noexcept {
  // One touch maps all pages around it that the system has (Linux: 64 KiB). MADV_POPULATE_READ looks at each
  // page by itself and takes twice as long for pages that are in memory.
  constexpr std::size_t kAround = 64 << 10;
  std::uint8_t touched = 0;
  for (std::size_t i = 0; i < part.size(); i += kAround) {
    touched ^= *const_cast<const volatile std::uint8_t*>(&part[i]);
  }
  if (!part.empty()) touched ^= *const_cast<const volatile std::uint8_t*>(&part.back());
  static_cast<void>(touched);
}

void give_back([[maybe_unused]] std::span<const std::uint8_t> part) noexcept {
#ifdef __linux__
  advise(part, true, MADV_DONTNEED);
#endif
}

MappedFile::MappedFile(const std::filesystem::path& path) {
  const Descriptor file(path);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) throw IoError("cannot open", path.string(), errno);
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

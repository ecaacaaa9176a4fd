// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <utility>

#include "io/file/temporaries.h"
#include "msprobe/error.h"
#include "msprobe/packed_step.h"

namespace msprobe::io {
namespace {

namespace fs = std::filesystem;

bool exists_as_directory(const fs::path& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

// Network file systems report a full disk only here. After a failed close the descriptor is gone all the
// same.
void close_checked(int& descriptor, const fs::path& path) {
  if (::close(std::exchange(descriptor, -1)) != 0 && errno != EINTR) {
    throw IoError("cannot write", path.string(), errno);
  }
}

// Whether it is there now; its parent has to be. errno says why not.
bool make_directory(const fs::path& path) {
  if (::mkdir(path.c_str(), kDirectoryMode) == 0) return true;
  const int reason = errno;
  // EEXIST: another process may have created it, too.
  const bool is_there = reason == EEXIST && exists_as_directory(path);
  errno = reason;
  return is_there;
}

}  // namespace

void write_all(int descriptor, const fs::path& path, const void* data, std::size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor, next, bytes);
    if (written < 0) {
      if (errno == EINTR) continue;
      throw IoError("cannot write", path.string(), errno);
    }
    next += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void make_directories(const fs::path& path) {
  // Most often the last one or two are missing, as in each step of a dump.
  if (make_directory(path)) return;
  if (errno == ENOENT && make_directory(path.parent_path()) && make_directory(path)) return;
  // From the beginning, to create all the others, or to name the one that cannot be created.
  fs::path part;
  for (const fs::path& component : path) {
    part /= component;
    if (component.empty() || exists_as_directory(part) || make_directory(part)) continue;
    const int reason = errno;
    if (reason == EEXIST || reason == ENOTDIR) {
      throw IoError("cannot create the directory " + path.string() + ", because a part of it is a file:",
                    part.string(), ENOTDIR);
    }
    throw IoError("cannot create the directory", part.string(), reason);
  }
}

int open_regular(const fs::path& path, int flags) noexcept {
  int descriptor = -1;
  do {
    descriptor = ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, kFileMode);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0) return descriptor;
  struct stat status{};
  const int reason = ::fstat(descriptor, &status) != 0 ? errno
                     : S_ISREG(status.st_mode)         ? 0
                     : S_ISDIR(status.st_mode)         ? EISDIR
                                                       : EINVAL;
  if (reason == 0) return descriptor;
  ::close(descriptor);
  errno = reason;
  return -1;
}

int open_to_read(const fs::path& path) {
  const int descriptor = open_regular(path, O_RDONLY);
  if (descriptor >= 0) return descriptor;
  const bool is_another = errno == EISDIR || errno == EINVAL;
  throw IoError(is_another ? "cannot read, because it is not a regular file:" : "cannot open", path.string(),
                errno);
}

void append_text(const fs::path& path, std::string_view text) {
  int descriptor = open_regular(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW);
  if (descriptor < 0) throw IoError("cannot open", path.string(), errno);
  const off_t before = ::lseek(descriptor, 0, SEEK_END);
  try {
    write_all(descriptor, path, text.data(), text.size());
  } catch (const IoError&) {
    static_cast<void>(::ftruncate(descriptor, before) == 0);
    ::close(descriptor);
    throw;
  }
  close_checked(descriptor, path);
}

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)) {
  constexpr std::size_t kAttempts = 100;
  for (std::size_t attempt = 0; attempt < kAttempts; ++attempt) {
    temporary_ = path_.parent_path() / temporary_name(path_.filename().string(), attempt);
    descriptor_ = open_regular(temporary_, O_WRONLY | O_CREAT | O_EXCL);
    if (descriptor_ >= 0) return;
    if (errno != EEXIST) break;
  }
  throw IoError("cannot create", path_.string(), errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, std::size_t bytes) { write_all(descriptor_, path_, data, bytes); }

void AtomicFile::commit() {
  close_checked(descriptor_, path_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    throw IoError("cannot write", path_.string(), errno);
  }
  temporary_.clear();
}

OutputFile::OutputFile(fs::path path) : path_(std::move(path)) {
  descriptor_ = open_regular(path_, O_WRONLY | O_CREAT | O_TRUNC);
  if (descriptor_ < 0) throw IoError("cannot create", path_.string(), errno);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void OutputFile::write(const void* data, std::size_t bytes) { write_all(descriptor_, path_, data, bytes); }

void OutputFile::close() { close_checked(descriptor_, path_); }

void write_file(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

InputFile::InputFile(fs::path path) : path_(std::move(path)), descriptor_(open_regular(path_, O_RDONLY)) {
  if (descriptor_ < 0 && errno == ENOENT) {
    if (auto packed = read_packed(path_)) {
      packed_ = std::move(*packed);
      size_ = packed_.size();
      return;
    }
  }
  if (descriptor_ < 0) descriptor_ = open_to_read(path_);  // which says why not
  struct stat status{};
  if (::fstat(descriptor_, &status) == 0) size_ = static_cast<std::uint64_t>(status.st_size);
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void InputFile::read(std::uint64_t offset, std::span<std::uint8_t> out) const {
  if (descriptor_ < 0) return read_from_packed(offset, out);
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got =
        ::pread(descriptor_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (got < 0) {
      if (errno == EINTR) continue;
      throw IoError("cannot read", path_.string(), errno);
    }
    if (got == 0) refuse_end(offset + done, out.size() - done);
    done += static_cast<std::size_t>(got);
  }
}

void InputFile::read_from_packed(std::uint64_t offset, std::span<std::uint8_t> out) const {
  const std::uint64_t left = offset < size_ ? size_ - offset : 0;
  if (out.size() > left) refuse_end(offset + left, out.size() - static_cast<std::size_t>(left));
  packed_.copy(reinterpret_cast<char*>(out.data()), out.size(), static_cast<std::size_t>(offset));
}

void InputFile::refuse_end(std::uint64_t end, std::size_t missing) const {
  throw FormatError(path_.string(), "byte " + std::to_string(end),
                    "the file ends here, expected " + std::to_string(missing) + " more bytes");
}

void InputFile::advise_sequential() const noexcept {
  if (descriptor_ < 0) return;
#if defined(POSIX_FADV_SEQUENTIAL)
  ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_SEQUENTIAL);
#endif
}

}  // namespace msprobe::io

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/crc32.h"
#include "grad_probe/packed_file.h"
#include "grad_probe/packed_format.h"
#include "msprobe/error.h"

namespace msprobe::grad_probe {
namespace {

// What is smaller is written together.
constexpr std::size_t kBufferBytes = 256 << 10;

std::string described(std::string_view summary, std::span<const SignsToPack> signs,
                      std::uint64_t& sign_bytes) {
  std::string index;
  packed::put_text(index, summary);
  sign_bytes = 0;
  for (const SignsToPack& one : signs) {
    packed::put_text(index, one.name);
    packed::put(index, static_cast<std::uint8_t>(one.fortran_order));
    packed::put(index, static_cast<std::uint8_t>(one.shape.size()));
    packed::put(index, std::uint16_t{0});
    packed::put(index, static_cast<std::int32_t>(one.keeper));
    for (const std::int64_t extent : one.shape) packed::put(index, extent);
    packed::put(index, sign_bytes);
    packed::put(index, one.hash.low);
    packed::put(index, one.hash.high);
    sign_bytes += one.bits.size();
  }
  return index;
}

}  // namespace

PackedWriter::PackedWriter(std::filesystem::path path) : path_(std::move(path)) { open(); }

PackedWriter::~PackedWriter() { close(); }

void PackedWriter::open() {
  close();
  io::make_directories(path_.parent_path());
  descriptor_ = io::open_regular(path_, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW);
  if (descriptor_ < 0) throw IoError("cannot write", path_.string(), errno);
  try {
    const std::uint64_t there = size();
    // Read before it is locked: a process lets go of its lock when it closes the file that it read.
    end_ = there == 0 ? 0 : PackedFile(path_).end();
    lock();
    if (size() != there) refuse();
    if (there == 0) {
      io::write_all(descriptor_, path_, packed::kMagic.data(), packed::kMagic.size());
      end_ = packed::kMagic.size();
    } else if (there > end_ && ::ftruncate(descriptor_, static_cast<off_t>(end_)) != 0) {
      throw IoError("cannot write", path_.string(), errno);
    }
  } catch (...) {
    close();
    throw;
  }
}

// A lock of the process, which ends with it and is not inherited by those that it forks. Where a file system
// has none, nobody is refused.
void PackedWriter::lock() const {
  struct flock whole{};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (::fcntl(descriptor_, F_SETLK, &whole) != 0 && (errno == EAGAIN || errno == EACCES)) refuse();
}

void PackedWriter::refuse() const {
  throw IoError("cannot write, because another process records into", path_.string(), EAGAIN);
}

std::uint64_t PackedWriter::size() const {
  struct stat status{};
  if (::fstat(descriptor_, &status) != 0) throw IoError("cannot read", path_.string(), errno);
  return static_cast<std::uint64_t>(status.st_size);
}

bool PackedWriter::is_as_left() const noexcept {
  struct stat ours{};
  struct stat there{};
  return descriptor_ >= 0 && ::fstat(descriptor_, &ours) == 0 && ::stat(path_.c_str(), &there) == 0 &&
         ours.st_dev == there.st_dev && ours.st_ino == there.st_ino && std::cmp_equal(ours.st_size, end_);
}

void PackedWriter::close() noexcept {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

void PackedWriter::append(std::int64_t step, bool has_signs, std::string_view summary,
                          std::span<const SignsToPack> signs) {
  if (!is_as_left()) open();
  packed::Head head{};
  const std::string index = described(summary, signs, head.sign_bytes);
  head.mark = packed::kStepMark;
  head.step = step;
  head.index_bytes = index.size();
  head.parameters = static_cast<std::uint32_t>(signs.size());
  head.flags = has_signs ? packed::kHasSigns : 0;
  const std::string_view bytes(reinterpret_cast<const char*>(&head), sizeof(head));
  const std::string_view checked = bytes.substr(packed::kNotInCrc);
  head.crc = crc32(crc32(0, checked.data(), checked.size()), index.data(), index.size());
  buffer_.clear();
  try {
    write(bytes);
    write(index);
    for (const SignsToPack& one : signs) {
      write({reinterpret_cast<const char*>(one.bits.data()), one.bits.size()});
    }
    flush();
  } catch (const IoError&) {
    static_cast<void>(::ftruncate(descriptor_, static_cast<off_t>(end_)) == 0);
    throw;
  }
  end_ += sizeof(head) + head.index_bytes + head.sign_bytes;
}

void PackedWriter::write(std::string_view bytes) {
  if (buffer_.size() + bytes.size() >= kBufferBytes) flush();
  if (bytes.size() >= kBufferBytes) {
    io::write_all(descriptor_, path_, bytes.data(), bytes.size());
  } else {
    buffer_ += bytes;
  }
}

void PackedWriter::flush() {
  io::write_all(descriptor_, path_, buffer_.data(), buffer_.size());
  buffer_.clear();
}

}  // namespace msprobe::grad_probe

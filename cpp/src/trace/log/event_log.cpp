// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/event_log.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include "msprobe/error.h"
#include "msprobe/file.h"
#include "msprobe/trace.h"
#include "trace/log/encoding.h"
#include "trace/log/mapping_guard.h"

namespace msprobe::trace {
namespace {

// Addresses are reserved once, so that what was appended never moves; memory is taken as the log grows. A
// process whose addresses are counted (ulimit -v) needs most of them for itself.
constexpr std::size_t kReservedBytes = std::size_t{1} << 36;
constexpr std::size_t kReservedBytesIfLimited = std::size_t{1} << 28;
constexpr std::size_t kFewestReservedBytes = std::size_t{1} << 26;
constexpr std::size_t kGrowBytes = std::size_t{1} << 20;

std::size_t addresses_wanted() {
  rlimit limit{};
  const bool limited = ::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return limited ? kReservedBytesIfLimited : kReservedBytes;
}

int create_file(const std::filesystem::path& path) {
  ::unlink(path.c_str());  // a log of an earlier run may still be mapped by a process that reads it
  const int descriptor = io::open_regular(path, O_RDWR | O_CREAT | O_EXCL);
  if (descriptor < 0) throw IoError("cannot create", path.string(), errno);
  return descriptor;
}

}  // namespace

struct EventLog::Memory {
  std::filesystem::path path;
  int descriptor = -1;  // -1: the log (or the rest of it) is in memory only
  char* base = nullptr;
  std::size_t reserved = 0;
  std::size_t capacity = 0;
  std::atomic<std::size_t> size{0};
  std::optional<MappingGuard> guard;  // of a log in a file

  explicit Memory(std::filesystem::path file) : path(std::move(file)) {
    if (!path.empty()) descriptor = create_file(path);
    void* address = MAP_FAILED;
    for (reserved = addresses_wanted(); reserved >= kFewestReservedBytes; reserved /= 2) {
      address = ::mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (address != MAP_FAILED) break;
    }
    if (address == MAP_FAILED) {
      const int reason = errno;
      close_file();
      throw IoError("cannot reserve addresses for", path.string(), reason);
    }
    base = static_cast<char*>(address);
    if (descriptor >= 0) guard.emplace(base, reserved);
  }

  ~Memory() {
    close_file();
    guard.reset();
    if (base != nullptr) ::munmap(base, reserved);
  }

  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void close_file() noexcept {
    if (descriptor < 0) return;
    // Failing to give back the end costs disk space until the file is deleted, nothing else.
    [[maybe_unused]] const int ignored = ::ftruncate(descriptor, static_cast<off_t>(size.load()));
    ::close(std::exchange(descriptor, -1));
  }

  void reserve(std::size_t wanted) {
    while (capacity < wanted) {
      if (capacity + kGrowBytes > reserved) throw IoError("the log is full:", path.string(), EFBIG);
      if (descriptor >= 0 && !grow_file()) close_file();
      if (descriptor < 0) grow_memory();
      capacity += kGrowBytes;
    }
  }

 private:
  // Space is allocated before it is mapped: writing to a page without space behind it would be a signal.
  bool grow_file() {
    if (::posix_fallocate(descriptor, static_cast<off_t>(capacity), kGrowBytes) != 0) return false;
    return ::mmap(base + capacity, kGrowBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE,
                  descriptor, static_cast<off_t>(capacity)) != MAP_FAILED;
  }

  // On a full disk the step goes on in memory: its JSON files may still find room.
  void grow_memory() {
    if (::mmap(base + capacity, kGrowBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
               -1, 0) == MAP_FAILED) {
      throw IoError("no memory for", path.string(), errno);
    }
  }
};

EventLog::EventLog(std::filesystem::path path) : memory_(std::make_unique<Memory>(std::move(path))) {
  memory_->reserve(kLogHeaderBytes);
  std::memcpy(memory_->base, kLogMagic.data(), kLogMagic.size());
  memory_->size = kLogHeaderBytes;
}

EventLog::~EventLog() = default;

void EventLog::append(std::uint8_t type, std::string_view head, std::string_view body) {
  const std::size_t bytes = sizeof(EventHead) + head.size() + body.size();
  const std::size_t length = (bytes + kEventAlignment - 1) / kEventAlignment * kEventAlignment;
  if (length > 0xffffffffU) throw UnsupportedError("a record of more than 4 GiB cannot be kept");
  const std::size_t start = memory_->size.load(std::memory_order_relaxed);
  memory_->reserve(start + length);
  char* out = memory_->base + start;
  head.copy(out + sizeof(EventHead), head.size());
  body.copy(out + sizeof(EventHead) + head.size(), body.size());
  out[4] = static_cast<char>(type);
  // The length makes the event one: until it is there, a reader of a killed process's file stops before it.
  auto* const stored_length = reinterpret_cast<std::uint32_t*>(out);
  std::atomic_ref<std::uint32_t>(*stored_length)
      .store(static_cast<std::uint32_t>(length), std::memory_order_release);
  memory_->size.store(start + length, std::memory_order_release);
}

void EventLog::header(const Header& header) {
  std::string body;
  put_text(body, header.task);
  put_text(body, header.level);
  put_optional(body, header.data_directory);
  const Framework& framework = header.framework;
  put_text(body, framework.name);
  put_text(body, framework.package);
  put(body, static_cast<std::uint8_t>((framework.qualifies_dtypes ? kQualifiesDtypes : 0) |
                                      (framework.has_requires_grad ? kHasRequiresGrad : 0) |
                                      (framework.has_recompute ? kHasRecompute : 0)));
  append(static_cast<std::uint8_t>(EventType::kHeader), {}, body);
}

RecordId EventLog::record(RecordKind kind, std::string_view name, StackId stack, bool is_recompute,
                          std::string_view recompute_of) {
  if (recompute_of.size() > 0xffff) recompute_of = {};
  struct Fields {
    RecordId id;
    StackId stack;
    std::uint8_t kind;
    std::uint8_t is_recompute;
    std::uint16_t repeats_bytes;  // of the name behind the record's own
    std::uint32_t name_bytes;
  };
  const Fields fields{records_,
                      stack,
                      static_cast<std::uint8_t>(kind),
                      static_cast<std::uint8_t>(is_recompute),
                      static_cast<std::uint16_t>(recompute_of.size()),
                      static_cast<std::uint32_t>(name.size())};
  const std::string_view head(reinterpret_cast<const char*>(&fields), sizeof fields);
  if (recompute_of.empty()) {
    append(static_cast<std::uint8_t>(EventType::kRecord), head, name);
  } else {
    body_.assign(name).append(recompute_of);
    append(static_cast<std::uint8_t>(EventType::kRecord), head, body_);
  }
  return records_++;
}

void EventLog::part(RecordId record, Part part, std::string_view elements) {
  struct Fields {
    RecordId record;
    std::uint8_t part;
    std::uint8_t zeros[3];
    std::uint32_t bytes;
  };
  const Fields fields{
      record, static_cast<std::uint8_t>(part), {}, static_cast<std::uint32_t>(elements.size())};
  append(static_cast<std::uint8_t>(EventType::kPart), {reinterpret_cast<const char*>(&fields), sizeof fields},
         elements);
}

void EventLog::fill(SlotId slot, std::string_view element) {
  const std::uint32_t fields[2] = {slot, static_cast<std::uint32_t>(element.size())};
  append(static_cast<std::uint8_t>(EventType::kFill), {reinterpret_cast<const char*>(fields), sizeof fields},
         element);
}

void EventLog::construct(std::string_view child, std::optional<std::string_view> parent) {
  body_.clear();
  put_text(body_, child);
  put_optional(body_, parent);
  append(static_cast<std::uint8_t>(EventType::kConstruct), {}, body_);
}

StackId EventLog::stack(std::span<const std::string_view> frames) {
  std::string body;
  put(body, stacks_);
  put(body, static_cast<std::uint32_t>(frames.size()));
  for (const std::string_view frame : frames) put_text(body, frame);
  append(static_cast<std::uint8_t>(EventType::kStack), {}, body);
  return stacks_++;
}

std::string_view EventLog::committed() const noexcept {
  return {memory_->base, memory_->size.load(std::memory_order_acquire)};
}

bool EventLog::move_to(const std::filesystem::path& path) noexcept {
  if (memory_->descriptor < 0 || ::rename(memory_->path.c_str(), path.c_str()) != 0) return false;
  memory_->path = path;
  return true;
}

void EventLog::rewind() noexcept {
  std::memset(memory_->base + kLogHeaderBytes, 0, memory_->size.load() - kLogHeaderBytes);
  memory_->size = kLogHeaderBytes;
  records_ = slots_ = stacks_ = 0;
}

void EventLog::close() noexcept { memory_->close_file(); }

void EventLog::remove() noexcept {
  close();
  if (!memory_->path.empty()) ::unlink(memory_->path.c_str());
}

std::string read_event_log(const std::filesystem::path& path) {
  const io::InputFile file(path);
  std::string bytes(file.size(), '\0');
  file.read(0, {reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()});
  if (bytes.size() < kLogHeaderBytes || !bytes.starts_with(kLogMagic)) {
    throw FormatError(path.string(), "byte 0", "expected an event log of this version of msprobe");
  }
  return bytes;
}

}  // namespace msprobe::trace

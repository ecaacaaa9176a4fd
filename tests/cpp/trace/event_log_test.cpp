// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/event_log.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "catch.h"
#include "frameworks.h"
#include "msprobe/error.h"
#include "msprobe/trace.h"
#include "temp_dir.h"
#include "trace/log/encoding.h"
#include "trace/log/mapping_guard.h"

using namespace msprobe;
using namespace msprobe::trace;
using test::read_bytes;
using test::TempDir;

namespace {

const Header kDumpHeader{"statistics", "mix", "./dump", test::kTorch};

std::string record_name(int index) { return "Torch.add." + std::to_string(index) + ".forward"; }

// Some of everything that a log can hold, `count` times.
void append_events(EventLog& log, int count) {
  log.header(kDumpHeader);
  for (int i = 0; i < count; ++i) {
    const std::string frame = "File a.py, line " + std::to_string(i) + ", in f, \n f()";
    const std::string_view frames[] = {frame, "File b.py, line 2, in g, \n g()"};
    const StackId stack = log.stack(frames);
    const std::string name = record_name(i);
    log.construct(name, i % 2 == 0 ? std::optional<std::string_view>("Module.m.M.forward.0") : std::nullopt);
    const RecordId id = log.record(RecordKind::kApiForward, name, stack, false);
    const SlotId slot = log.new_slot();
    const std::int64_t shape[] = {i, 3};
    TensorElement element;
    element.dtype = DType::kBFloat16;
    element.shape = shape;
    element.statistics.form = Statistics::Form::kFloats;
    element.statistics.max = i;
    element.statistics.nan_count = i % 3;
    ElementWriter out;
    out.tensor(element);
    out.begin_object();
    out.key("other");
    out.slot(slot);
    out.end();
    log.part(id, Part::kInputArgs, out.bytes());
    out.clear();
    out.text("filled");
    log.fill(slot, out.bytes());
  }
}

std::size_t records_in(std::string_view bytes) {
  JsonExporter exporter(kDumpHeader);
  exporter.consume(bytes);
  return exporter.record_count();
}

// Records before the damage, which may end the reading and nothing else.
std::size_t records_before_damage(std::string_view bytes) {
  JsonExporter exporter(kDumpHeader);
  try {
    exporter.consume(bytes);
  } catch (const FormatError&) {
    // what came before counts
  }
  const TempDir folder;
  exporter.write(folder.path());
  return exporter.record_count();
}

// Ends of the log's own header and of the events, as the lengths in the bytes say.
std::vector<std::size_t> event_ends(std::string_view bytes) {
  std::vector<std::size_t> ends{kLogHeaderBytes};
  for (std::size_t at = kLogHeaderBytes; at < bytes.size();) {
    std::uint32_t length = 0;
    std::memcpy(&length, bytes.data() + at, sizeof length);
    REQUIRE(length >= sizeof(EventHead));
    at += length;
    ends.push_back(at);
  }
  return ends;
}

}  // namespace

TEST_CASE("event log: the bytes of a log are those of its page in docs/formats") {
  EventLog log("");
  log.header({"tensor", "L1", std::nullopt, test::kTorch});
  log.construct("ab", "c");
  const std::string bytes(log.committed());
  std::string expected("MSPROBE\x02", 8);
  expected.resize(64, '\0');
  expected += std::string("\x38\0\0\0\x06\0\0\0", 8) + std::string("\x06\0\0\0tensor", 10) +
              std::string("\x02\0\0\0L1", 6) + std::string("\0\0\0\0\0", 5) +
              std::string("\x07\0\0\0pytorch", 11) + std::string("\x05\0\0\0torch", 9) + '\x07';
  expected.resize(120, '\0');
  expected += std::string("\x18\0\0\0\x04\0\0\0", 8) + std::string("\x02\0\0\0ab", 6) + '\x01' +
              std::string("\x01\0\0\0c", 5);
  expected.resize(144, '\0');
  CHECK(bytes == expected);
}

TEST_CASE("event log: what was appended is in the file at once, and a closed log ends with its last event") {
  const TempDir folder;
  const auto path = folder / "log";
  EventLog log(path);
  append_events(log, 20);
  const std::string committed(log.committed());
  const std::string early = read_event_log(path);
  CHECK(early.starts_with(committed));
  CHECK(early.find_first_not_of('\0', committed.size()) == std::string::npos);
  CHECK(records_in(early) == 20);
  log.close();
  CHECK(read_event_log(path) == committed);
}

TEST_CASE("event log: an existing file is replaced, and remove() leaves none") {
  const TempDir folder;
  const auto path = folder / "log";
  test::write_bytes(path, "an older file");
  EventLog log(path);
  append_events(log, 1);
  CHECK(records_in(read_event_log(path)) == 1);
  log.remove();
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("event log: grows far beyond its first piece, and what was committed stays where it is") {
  const TempDir folder;
  EventLog log(folder / "log");
  log.header(kDumpHeader);
  const char* const begin = log.committed().data();
  const std::string name(300'000, 'n');
  for (int i = 0; i < 20; ++i) log.record(RecordKind::kApiForward, name + std::to_string(i), kNoStack, false);
  const std::string_view committed = log.committed();
  CHECK(committed.data() == begin);
  CHECK(committed.size() > std::size_t{5} << 20);
  CHECK(records_in(committed) == 20);
  CHECK(records_in(read_event_log(folder / "log")) == 20);
}

TEST_CASE("event log: one event may be larger than the piece by which the log grows") {
  EventLog log("");
  log.record(RecordKind::kApiForward, std::string(std::size_t{3} << 20, 'n'), kNoStack, false);
  log.record(RecordKind::kApiForward, "last", kNoStack, false);
  CHECK(records_in(log.committed()) == 2);
}

TEST_CASE("event log: move_to gives the file another name, and rewind an empty log") {
  const TempDir folder;
  EventLog log(folder / "first");
  append_events(log, 30);
  CHECK(log.move_to(folder / "second"));
  CHECK(test::entries_below(folder.path()) == std::vector<std::string>{"second"});
  CHECK_FALSE(log.move_to(folder / "absent" / "third"));
  CHECK_FALSE(EventLog("").move_to(folder / "third"));
  CHECK(records_in(read_event_log(folder / "second")) == 30);

  log.rewind();
  CHECK(log.committed().size() == kLogHeaderBytes);
  CHECK(records_in(read_event_log(folder / "second")) == 0);
  append_events(log, 2);  // ids begin at 0 again, or this would be refused
  CHECK(records_in(log.committed()) == 2);
  CHECK(records_in(read_event_log(folder / "second")) == 2);
  log.close();
  CHECK(std::filesystem::file_size(folder / "second") == log.committed().size());
}

TEST_CASE("event log: a directory that is not there, or is none, is an error with the path") {
  const TempDir folder;
  CHECK_THROWS_AS(EventLog(folder / "absent" / "log"), IoError);
  test::write_bytes(folder / "file", "");
  CHECK_THROWS_AS(EventLog(folder / "file" / "log"), IoError);
}

TEST_CASE("read_event_log: only a log of this version") {
  const TempDir folder;
  const auto path = folder / "log";
  {
    EventLog(path).close();
  }
  std::string bytes = read_bytes(path);
  CHECK(read_event_log(path) == bytes);
  test::write_bytes(path, bytes.substr(0, 63));
  CHECK_THROWS_AS(read_event_log(path), FormatError);
  test::write_bytes(path, "");
  CHECK_THROWS_AS(read_event_log(path), FormatError);
  bytes[7] = 1;
  test::write_bytes(path, bytes);
  CHECK_THROWS_AS(read_event_log(path), FormatError);
  CHECK_THROWS_AS(read_event_log(folder.path()), IoError);
}

TEST_CASE("event log: cut at any byte, it holds the events before the cut") {
  EventLog log("");
  append_events(log, 6);
  const std::string_view bytes = log.committed();
  const std::vector<std::size_t> ends = event_ends(bytes);
  for (std::size_t size = kLogHeaderBytes; size <= bytes.size(); ++size) {
    CAPTURE(size);
    JsonExporter exporter(kDumpHeader);
    const std::size_t whole = *std::prev(std::upper_bound(ends.begin(), ends.end(), size));
    try {
      exporter.consume(bytes.substr(0, size));
    } catch (const FormatError&) {
      CHECK(size != whole);
    }
    CHECK(exporter.taken() == whole);
  }
}

TEST_CASE("event log: zeros in place of the end are an end") {
  EventLog log("");
  append_events(log, 6);
  const std::string bytes(log.committed());
  for (const std::size_t end : event_ends(bytes)) {
    std::string killed = bytes.substr(0, end);
    killed.resize(bytes.size() + 100, '\0');
    JsonExporter exporter(kDumpHeader);
    REQUIRE_NOTHROW(exporter.consume(killed));
    CHECK(exporter.taken() == end);
  }
}

TEST_CASE("event log: flipped bits end the reading, never the program") {
  EventLog log("");
  append_events(log, 12);
  const std::string bytes(log.committed());
  std::mt19937 random(1);
  for (int round = 0; round < 400; ++round) {
    std::string damaged = bytes;
    const int flips = 1 + round % 4;
    for (int i = 0; i < flips; ++i) {
      const std::size_t bit = random() % (8 * (bytes.size() - kLogHeaderBytes)) + 8 * kLogHeaderBytes;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    }
    CHECK(records_before_damage(damaged) <= 12);
  }
}

TEST_CASE("event log: foreign events are refused") {
  const auto with_event = [](std::uint32_t length, std::uint8_t type, std::string fields) {
    std::string bytes(kLogMagic);
    bytes.resize(kLogHeaderBytes, '\0');
    put(bytes, length);
    put(bytes, static_cast<std::uint32_t>(type));
    bytes += fields;
    bytes.resize((bytes.size() + 7) / 8 * 8, '\0');
    return bytes;
  };
  const auto refused = [](const std::string& bytes) {
    JsonExporter exporter(kDumpHeader);
    CHECK_THROWS_AS(exporter.consume(bytes), FormatError);
    CHECK(exporter.record_count() == 0);
  };
  refused(with_event(8, 0, ""));
  refused(with_event(8, 77, ""));
  refused(with_event(4, 1, ""));
  refused(with_event(12, 1, "abcd"));
  refused(with_event(0xfffffff8, 1, "abcd"));
  refused(with_event(32, 1, std::string("\x01\0\0\0\xff\xff\xff\xff\0\0\0\0\0\0\0\0", 16)));  // id 1 first
  refused(
      with_event(24, 1, std::string("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16)));  // a stack that is not there
  refused(with_event(24, 1, std::string("\0\0\0\0\xff\xff\xff\xff\x09\0\0\0\0\0\0\0", 16)));  // kind 9
  refused(with_event(24, 2, std::string("\0\0\0\0\0\0\0\0\0\0\0\0", 12)));                    // no record
  refused(with_event(16, 5, std::string("\0\0\0\0\xff\xff\xff\xff", 8)));  // frames missing
}

namespace {

// Appends records until the file has long been refused more space, and exports what is in memory.
// Exit code 0: all is there.
int fill_disk(const std::filesystem::path& folder) {
  constexpr int kRecords = 300;
  EventLog log(folder / "log");
  log.header(kDumpHeader);
  const std::string padding(20'000, 'x');
  for (int i = 0; i < kRecords; ++i) {
    log.record(RecordKind::kApiForward, padding + std::to_string(i), kNoStack, false);
  }
  if (records_in(log.committed()) != kRecords) return 1;
  log.close();
  const std::size_t on_disk = records_in(read_event_log(folder / "log"));
  return on_disk > 0 && on_disk < kRecords ? 0 : 2;
}

template <typename Work>
int exit_code_of(Work work) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int code = 99;
    try {
      code = work();
    } catch (...) {
      code = 98;
    }
    ::_exit(code);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("event log: a file that may not grow is left as it is, and the log goes on in memory") {
  const TempDir folder;
  CHECK(exit_code_of([&] {
          const rlimit limit{std::size_t{3} << 20, std::size_t{3} << 20};
          ::signal(SIGXFSZ, SIG_IGN);
          if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 97;
          return fill_disk(folder.path());
        }) == 0);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // take all addresses for themselves
TEST_CASE("event log: a process with few addresses keeps most of them") {
  const TempDir folder;
  CHECK(exit_code_of([&] {
          constexpr std::size_t few = std::size_t{1} << 30;
          std::size_t pages = 0;
          std::ifstream("/proc/self/statm") >> pages;
          const std::size_t own = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
          const rlimit limit{own + few, own + few};
          if (::setrlimit(RLIMIT_AS, &limit) != 0) return 97;
          EventLog log(folder / "log");
          log.header(kDumpHeader);
          log.record(RecordKind::kApiForward, "Torch.add.0.forward", kNoStack, false);
          const std::vector<char> left(few / 2);  // throws where nothing is left
          return records_in(log.committed()) == 1 && !left.empty() ? 0 : 1;
        }) == 0);
}
#endif

TEST_CASE("event log: a full disk is no reason to stop") {
  const TempDir folder;
  if (::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=3m") != 0) {
    WARN("not run: mounting a file system of 3 MiB is not allowed here");
    return;
  }
  const int code = exit_code_of([&] { return fill_disk(folder.path()); });
  ::umount2(folder.path().c_str(), MNT_DETACH);
  CHECK(code == 0);
}

TEST_CASE("event log: a file that is cut under it is no reason to stop") {
  const TempDir folder;
  const auto path = folder / "log";
  for (const off_t size : {0, 1, 5000}) {
    EventLog log(path);
    append_events(log, 25);
    CHECK_FALSE(was_cut(log.committed()));
    REQUIRE(::truncate(path.c_str(), size) == 0);
    append_events(log, 20000);
    CHECK(was_cut(log.committed()));
    CHECK(log.committed().size() > (std::size_t{1} << 20));
    JsonExporter exporter(kDumpHeader);
    try {
      exporter.consume(log.committed());  // what is gone is zero: an end, or no event
    } catch (const FormatError&) {
    }
    log.rewind();
    append_events(log, 3);
  }
}

TEST_CASE("event log: other faults of memory end the process as before") {
  const TempDir folder;
  const EventLog log(folder / "log");
  test::write_bytes(folder / "other", std::string(5000, 'x'));
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const int descriptor = ::open((folder / "other").c_str(), O_RDWR);
    auto* const base =
        static_cast<volatile char*>(::mmap(nullptr, 5000, PROT_READ, MAP_SHARED, descriptor, 0));
    ::ftruncate(descriptor, 0) == 0 ? ::_exit(base[0]) : ::_exit(98);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  // A sanitizer has a handler of its own, which prints and exits.
  const int exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  CAPTURE(status);
  CHECK(((WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS) || (exit_code > 0 && exit_code != 98)));
}

TEST_CASE("event log: a process that is killed leaves all events it had appended") {
  const TempDir folder;
  const auto path = folder / "log";
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    EventLog log(path);
    append_events(log, 25);
    [[maybe_unused]] const ssize_t written = ::write(ready[1], "x", 1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  ::kill(child, SIGKILL);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  ::close(ready[0]);
  ::close(ready[1]);
  CHECK(records_in(read_event_log(path)) == 25);
  CHECK(export_event_log(path, folder / "out").records == 25);
}

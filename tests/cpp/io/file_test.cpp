// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/file.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "catch.h"
#include "msprobe/error.h"
#include "temp_dir.h"

namespace msprobe::io {
namespace {

using test::entries_below;
using test::read_bytes;
using test::TempDir;
using test::write_bytes;

unsigned mode_of(const std::filesystem::path& path) {
  struct stat status{};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

// What `make` throws, as text.
template <typename Thrown, typename Make>
std::string message_of(const Make& make) {
  try {
    make();
  } catch (const Thrown& error) {
    return error.what();
  }
  FAIL("nothing of the expected type was thrown");
  return {};
}

TEST_CASE("make_directories: creates parents with mode 0750 and accepts existing ones") {
  const TempDir dir;
  const mode_t before = ::umask(0022);
  make_directories(dir / "a/b/c/");
  make_directories(dir / "a/b/c");
  ::umask(before);
  CHECK(mode_of(dir / "a") == 0750);
  CHECK(mode_of(dir / "a/b/c") == 0750);
}

TEST_CASE("make_directories: names the part of the path that is a file") {
  const TempDir dir;
  write_bytes(dir / "file", "x");
  const std::string text = message_of<IoError>([&] { make_directories(dir / "file/b/c"); });
  CHECK(text.find((dir / "file/b/c").string()) != std::string::npos);
  CHECK(text.find((dir / "file").string() + ": Not a directory") != std::string::npos);
  CHECK_THROWS_AS(make_directories(dir / "file"), IoError);
}

TEST_CASE("AtomicFile: appears in commit() with mode 0640 and all bytes") {
  const TempDir dir;
  const mode_t before = ::umask(0022);
  AtomicFile file(dir / "a.txt");
  ::umask(before);
  file.write("one ");
  file.write("two");
  CHECK_FALSE(std::filesystem::exists(dir / "a.txt"));
  CHECK(entries_below(dir.path()) == std::vector<std::string>{".a.txt." + std::to_string(getpid()) + ".tmp"});
  file.commit();
  CHECK(entries_below(dir.path()) == std::vector<std::string>{"a.txt"});
  CHECK(read_bytes(dir / "a.txt") == "one two");
  CHECK(mode_of(dir / "a.txt") == 0640);
}

TEST_CASE("AtomicFile: without commit() nothing stays and the old content is kept") {
  const TempDir dir;
  write_bytes(dir / "a.txt", "old");
  {
    AtomicFile file(dir / "a.txt");
    file.write("new");
  }
  CHECK(entries_below(dir.path()) == std::vector<std::string>{"a.txt"});
  CHECK(read_bytes(dir / "a.txt") == "old");
}

TEST_CASE("AtomicFile: two writers of one path do not disturb each other") {
  const TempDir dir;
  AtomicFile first(dir / "a.txt");
  AtomicFile second(dir / "a.txt");
  first.write("first");
  second.write("second");
  second.commit();
  CHECK(read_bytes(dir / "a.txt") == "second");
  first.commit();
  CHECK(read_bytes(dir / "a.txt") == "first");
  CHECK(entries_below(dir.path()) == std::vector<std::string>{"a.txt"});
}

TEST_CASE("AtomicFile: a name of the greatest length works") {
  const TempDir dir;
  const std::string name(255, 'n');
  write_file(dir / name, "x");
  CHECK(entries_below(dir.path()) == std::vector<std::string>{name});
}

TEST_CASE("AtomicFile: every failure names the path") {
  const TempDir dir;
  const std::string missing = (dir / "missing/a.txt").string();
  CHECK(message_of<IoError>([&] { const AtomicFile file(missing); }) ==
        "cannot create " + missing + ": No such file or directory");
  std::filesystem::create_directory(dir / "taken");
  AtomicFile file(dir / "taken");
  CHECK(message_of<IoError>([&] { file.commit(); }).find((dir / "taken").string()) != std::string::npos);
}

// The limit on file sizes stands for a full disk: write() stores a part and the next call fails.
int write_beyond_limit(const std::filesystem::path& path) {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{1000, 1000};
  if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 10;
  try {
    write_file(path, std::string(5000, 'x'));
  } catch (const IoError& error) {
    return error.error_number() == EFBIG && error.path() == path.string() ? 0 : 11;
  }
  return 12;
}

TEST_CASE("write_file: a full disk leaves neither a part nor a temporary file") {
  const TempDir dir;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(write_beyond_limit(dir / "a.txt"));
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(entries_below(dir.path()).empty());
}

TEST_CASE("OutputFile: has its name from the start and replaces what was there") {
  const TempDir dir;
  write_bytes(dir / "a.bin", "something longer");
  OutputFile file(dir / "a.bin");
  file.write("one ", 4);
  file.write("two", 3);
  file.close();
  CHECK(read_bytes(dir / "a.bin") == "one two");
  CHECK_THROWS_AS(OutputFile(dir / "missing/a.bin"), IoError);
  CHECK_THROWS_AS(OutputFile("/dev/full"), IoError);  // no regular file
}

TEST_CASE("InputFile: reads at any offset and refuses to read past the end") {
  const TempDir dir;
  write_bytes(dir / "a.bin", "0123456789");
  const InputFile file(dir / "a.bin");
  CHECK(file.size() == 10);
  std::vector<std::uint8_t> bytes(4);
  file.read(3, bytes);
  CHECK(std::string(bytes.begin(), bytes.end()) == "3456");
  CHECK(message_of<FormatError>([&] { file.read(8, bytes); }) ==
        (dir / "a.bin").string() + ": byte 10: the file ends here, expected 2 more bytes");
}

TEST_CASE("InputFile: a file cut short while in use is a FormatError") {
  const TempDir dir;
  write_bytes(dir / "a.bin", std::string(8192, 'x'));
  const InputFile file(dir / "a.bin");
  std::filesystem::resize_file(dir / "a.bin", 100);
  std::vector<std::uint8_t> bytes(8192);
  CHECK_THROWS_AS(file.read(0, bytes), FormatError);
}

TEST_CASE("InputFile: only regular files are opened") {
  const TempDir dir;
  REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_AS(InputFile(dir / "pipe"), IoError);  // and does not wait for a writer
  CHECK_THROWS_AS(InputFile(dir.path()), IoError);
  CHECK_THROWS_AS(InputFile("/dev/zero"), IoError);
  CHECK_THROWS_AS(InputFile(dir / "missing"), IoError);
}

}  // namespace
}  // namespace msprobe::io

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <limits>
#include <thread>

#include "catch.h"
#include "grad_probe/rank_directory.h"
#include "grad_probe/sample.h"
#include "msprobe/grad_probe.h"
#include "msprobe/table.h"
#include "msprobe/tensor_file.h"
#include "temp_dir.h"

namespace msprobe::grad_probe {
namespace {

namespace fs = std::filesystem;
using test::entries_below;
using test::read_bytes;
using test::TempDir;
using test::write_bytes;
using Names = std::vector<std::string>;

TEST_CASE("Writer: creates the rank directory at once, and says so when it cannot") {
  const TempDir dir;
  {
    Options options = options_at(dir / "a/b");
    options.rank = 12;
    const Writer writer(options);
    CHECK(entries_below(dir.path()) == Names{"a/", "a/b/", "a/b/rank12/"});
    CHECK(writer.options().rank == 12);
  }
  write_bytes(dir / "file", "x");
  CHECK_THROWS_AS(Writer(options_at(dir / "file")), IoError);
  CHECK_THROWS_AS(Writer(options_at(dir / "file/below")), IoError);
  CHECK_THROWS_AS(Writer(options_at("/proc/cannot/be/created")), IoError);
}

TEST_CASE("Writer: wrong options are refused at construction") {
  const TempDir dir;
  Options options = options_at(dir.path());
  options.bounds = {{1, "1"}, {0, "0"}};
  CHECK_THROWS_AS(Writer(options), InvalidArgument);
  options.bounds = {{1, "1"}, {1, "1"}};
  CHECK_THROWS_AS(Writer(options), InvalidArgument);
  options.bounds = {{std::numeric_limits<double>::quiet_NaN(), "nan"}};
  CHECK_THROWS_AS(Writer(options), InvalidArgument);
  options.bounds = {};
  options.rank = -1;
  CHECK_THROWS_AS(Writer(options), InvalidArgument);
}

TEST_CASE("Writer: writes what write_step writes, and flush() waits for it") {
  const TempDir dir;
  const Options threaded = options_at(dir / "threaded");
  const Options direct = options_at(dir / "direct");
  Writer writer(threaded);
  for (int step = 0; step < 20; ++step) {
    writer.record(step, measured(threaded, 3, 1000, static_cast<unsigned>(step)));
    write_step(direct, step, measured(direct, 3, 1000, static_cast<unsigned>(step)));
  }
  CHECK(writer.flush() == 0);
  const Names names = entries_below(dir / "direct");
  REQUIRE(entries_below(dir / "threaded") == names);
  for (const std::string& name : names) {
    if (name.back() == '/') continue;
    INFO(name);
    CHECK((read_bytes(dir / "threaded" / name) == read_bytes(dir / "direct" / name)));
  }
}

TEST_CASE("Writer: rows of a written step are given back once, and steps in their memory are right") {
  const TempDir dir;
  const Options reusing = options_at(dir / "reusing");
  const Options direct = options_at(dir / "direct");
  Writer writer(reusing);
  CHECK(writer.spare().empty());
  for (int step = 0; step < 10; ++step) {
    const OwnedGradients gradients = some_gradients(3, 1000, static_cast<unsigned>(step));
    writer.record(step, measure(gradients.views(), reusing, nullptr, writer.spare()));
    writer.flush();
    write_step(direct, step, measure(gradients.views(), direct));
  }
  CHECK(writer.spare().size() == 3);
  CHECK(writer.spare().empty());
  for (const std::string& name : entries_below(dir / "direct")) {
    if (name.back() == '/') continue;
    INFO(name);
    CHECK((read_bytes(dir / "reusing" / name) == read_bytes(dir / "direct" / name)));
  }
}

TEST_CASE("Writer: the destructor waits for everything") {
  const TempDir dir;
  {
    Writer writer(options_at(dir.path()));
    for (int step = 0; step < 30; ++step) writer.record(step, measured(writer.options(), 2, 50000, 1));
  }
  CHECK(numbered_directories(dir / "rank0", "step").size() == 30);
}

TEST_CASE("Writer: two records of the same step leave the second, complete") {
  const TempDir dir;
  {
    Writer writer(options_at(dir.path()));
    writer.record(0, measured(writer.options(), 3, 100, 1));
    writer.record(0, measured(writer.options(), 2, 200, 2));
  }
  CHECK(io::read_csv(dir / "rank0/grad_summary_0.csv").rows.size() == 2);
  CHECK(io::read_npy_header(dir / "rank0/step0/p0.npy").count == 200);
  CHECK(io::read_npy_header(dir / "rank0/step0/p2.npy").count == 100);
}

TEST_CASE("Writer: once record() has returned, a quickly written step before it is on disk") {
  const TempDir dir;
  Writer writer(options_at(dir.path()));
  // A step is waited for for ten milliseconds, which it may need on a busy machine: a record() that takes
  // longer says nothing, one that takes less has to have seen the step before it on disk.
  int early = 0;
  for (int step = 0; step < 50; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    writer.record(step, measured(writer.options(), 1, 10, 1));
    const bool quick = std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(8);
    if (step > 0 && quick && !fs::exists(summary_file(dir / "rank0", step - 1))) ++early;
  }
  CHECK(early == 0);
}

TEST_CASE(
    "Writer: a step that cannot be written is logged by the next call and counted; later steps are written") {
  const TempDir dir;
  Writer writer(options_at(dir.path()));
  write_bytes(dir / "rank0/step1", "in the way");
  for (int step = 0; step < 2; ++step) writer.record(step, measured(writer.options(), 2, 10, 1));
  const test::LogCapture log;
  CHECK(writer.flush() == 1);
  REQUIRE(log.messages().size() == 1);
  CHECK(log.levels()[0] == LogLevel::kError);
  CHECK(log.messages()[0].find("step 1 ") != std::string::npos);
  CHECK(log.messages()[0].find((dir / "rank0/step1").string()) != std::string::npos);
  CHECK(entries_below(dir / "rank0") ==
        Names{"grad_summary_0.csv", "step0/", "step0/p0.npy", "step0/p1.npy", "step1"});

  fs::remove(dir / "rank0/step1");
  for (int step = 1; step < 3; ++step) writer.record(step, measured(writer.options(), 2, 10, 1));
  CHECK(writer.flush() == 1);
  CHECK(log.messages().size() == 1);  // each failure once
  CHECK(numbered_directories(dir / "rank0", "step") == std::vector<std::int64_t>{0, 1, 2});
}

TEST_CASE("Writer: failures that nobody asked for are logged by the destructor") {
  const TempDir dir;
  const test::LogCapture log;
  {
    Writer writer(options_at(dir.path()));
    write_bytes(dir / "rank0/step0", "in the way");
    writer.record(0, measured(writer.options(), 1, 10, 1));
  }
  CHECK(log.messages().size() == 1);
}

TEST_CASE("Writer: the sink is only called on threads of the caller") {
  const TempDir dir;
  std::atomic<int> calls = 0;
  std::atomic<int> elsewhere = 0;
  const auto caller = std::this_thread::get_id();
  set_log_sink([&](LogLevel, std::string_view) {
    ++calls;
    if (std::this_thread::get_id() != caller) ++elsewhere;
  });
  {
    Writer writer(options_at(dir.path()));
    for (int step = 0; step < 5; ++step) {
      write_bytes(dir / ("rank0/step" + std::to_string(step)), "in the way");
      writer.record(step, measured(writer.options(), 1, 10, 1));
    }
  }
  set_log_sink({});
  CHECK(calls == 5);
  CHECK(elsewhere == 0);
}

TEST_CASE("Writer: a rank directory that vanishes is made again") {
  const TempDir dir;
  Writer writer(options_at(dir.path()));
  fs::remove_all(dir / "rank0");
  writer.record(0, measured(writer.options(), 1, 10, 1));
  CHECK(writer.flush() == 0);
  CHECK(fs::exists(dir / "rank0/step0/p0.npy"));
}

TEST_CASE("Writer: leftovers of a killed process are removed, those of a living Writer are not") {
  const TempDir dir;
  const std::string own = "." + std::to_string(getpid()) + ".tmp";
  write_bytes(dir / ("rank0/.step5" + own + "/p.npy"), "x");
  write_bytes(dir / "rank0/step4/p.npy", "x");
  const Writer first(options_at(dir.path()));
  CHECK(entries_below(dir / "rank0") == Names{"step4/", "step4/p.npy"});
  // While another Writer of this process is there, a temporary of this process may be in use.
  write_bytes(dir / ("rank0/.step6" + own + "/p.npy"), "x");
  const Writer second(options_at(dir.path()));
  CHECK(fs::exists(dir / ("rank0/.step6" + own + "/p.npy")));
}

TEST_CASE(
    "Writer: record() waits when the buffer is full, and a step larger than the buffer is taken alone") {
  const TempDir dir;
  Options options = options_at(dir.path());
  options.buffer_bytes = 1;  // every step is larger
  Writer writer(options);
  for (int step = 0; step < 6; ++step) {
    writer.record(step, measured(options, 60, 8, 1));
    // The queue was empty when this step went in: all before it are on disk.
    for (int before = 0; before < step; ++before) CHECK(fs::exists(summary_file(dir / "rank0", before)));
  }
  CHECK(writer.flush() == 0);
}

TEST_CASE("Writer: with room in the buffer, record() does not wait for a slow disk") {
  const TempDir dir;
  Writer writer(options_at(dir.path()));
  Measurement large;  // its file cannot be written within the ten milliseconds that record() waits
  large.name = "large";
  large.summary.count = std::int64_t{120} << 20;
  large.shape = {large.summary.count};
  large.signs.resize(stats::sign_bytes(large.summary.count), 0x55);
  writer.record(0, {large});
  writer.record(1, measured(writer.options(), 1, 10, 1));
  CHECK_FALSE(fs::exists(summary_file(dir / "rank0", 0)));
  CHECK(writer.flush() == 0);
  CHECK(fs::file_size(dir / "rank0/step0/large.npy") ==
        128 + static_cast<std::uintmax_t>(large.summary.count));
  CHECK(fs::exists(summary_file(dir / "rank0", 1)));
}

// Every csv on disk is whole, and all direction files it lists are.
void check_complete(const fs::path& rank_dir, int parameters, std::int64_t elements) {
  int steps = 0;
  for (const auto& entry : fs::directory_iterator(rank_dir)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("grad_summary_")) continue;
    ++steps;
    const std::string step = name.substr(13, name.size() - 17);
    const io::Table csv = io::read_csv(entry.path());
    CHECK(csv.rows.size() == static_cast<std::size_t>(parameters));
    for (const io::Row& row : csv.rows) {
      const fs::path file = rank_dir / ("step" + step) / direction_file_name(row[0]);
      CHECK(io::read_npy_header(file).count == elements);  // checks the size of the file
    }
  }
  for (const std::int64_t step : numbered_directories(rank_dir, "step")) {
    for (const auto& entry : fs::directory_iterator(step_directory(rank_dir, step))) {
      CHECK(io::read_npy_header(entry.path()).count == elements);
    }
  }
  CHECK(steps > 0);
}

TEST_CASE("Writer: kill -9 leaves complete steps, whatever moment it comes") {
  constexpr int kParameters = 20;
  constexpr std::int64_t kElements = 20000;
  for (int round = 0; round < 8; ++round) {
    const TempDir dir;
    const pid_t child = ::fork();
    if (child == 0) {
      Writer writer(options_at(dir.path()));
      const auto step = measured(writer.options(), kParameters, kElements, 3);
      for (int i = 0;; ++i) writer.record(i % 40, step);  // new steps first, then the same ones again
    }
    while (!fs::exists(summary_file(dir / "rank0", 2)))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::microseconds(7919 * round));
    REQUIRE(::kill(child, SIGKILL) == 0);
    REQUIRE(::waitpid(child, nullptr, 0) == child);

    check_complete(dir / "rank0", kParameters, kElements);
    const Writer next_run(options_at(dir.path()));
    for (const std::string& name : entries_below(dir / "rank0"))
      CHECK(name.find(".tmp") == std::string::npos);
  }
}

TEST_CASE("Writer: in a forked child nothing is written, waited for or destroyed") {
  const TempDir dir;
  Writer* writer = new Writer(options_at(dir.path()));
  writer->record(0, measured(writer->options(), 1, 10, 1));
  REQUIRE(writer->flush() == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);  // a deadlock must not hang the tests
    int warnings = 0;
    set_log_sink([&warnings](LogLevel, std::string_view) { ++warnings; });
    writer->record(1, {});
    writer->record(2, {});
    const bool quiet = writer->flush() == 0;
    delete writer;
    ::_exit(quiet && warnings == 1 ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  writer->record(3, measured(writer->options(), 1, 10, 1));
  delete writer;
  CHECK(numbered_directories(dir / "rank0", "step") == std::vector<std::int64_t>{0, 3});
}

volatile std::sig_atomic_t handled_on_caller = 0;
pthread_t caller_thread;

void note_thread(int) { handled_on_caller = pthread_equal(pthread_self(), caller_thread) != 0 ? 1 : 2; }

TEST_CASE("Writer: signals of the process are not handled on the writing thread") {
  const TempDir dir;
  caller_thread = pthread_self();
  const Writer writer(options_at(dir.path()));
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = note_thread;
  REQUIRE(::sigaction(SIGUSR1, &action, &before) == 0);
  // Blocked here: a thread that does not block it would get it.
  sigset_t set;
  sigset_t old;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  REQUIRE(pthread_sigmask(SIG_BLOCK, &set, &old) == 0);
  REQUIRE(::kill(getpid(), SIGUSR1) == 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(handled_on_caller == 0);
  REQUIRE(pthread_sigmask(SIG_SETMASK, &old, nullptr) == 0);
  CHECK(handled_on_caller == 1);
  REQUIRE(::sigaction(SIGUSR1, &before, nullptr) == 0);
}

}  // namespace
}  // namespace msprobe::grad_probe

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/file/write_queue.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "catch.h"
#include "log_capture.h"

using namespace msprobe;
using io::WriteQueue;

TEST_CASE("work is done in its order, and all of it at the end") {
  std::vector<int> done;
  {
    WriteQueue queue("test", 100);
    for (int i = 0; i < 50; ++i) queue.add(30, [&done, i] { done.push_back(i); });
    CHECK(queue.flush() == 0);
    CHECK(done.size() == 50);
    queue.add(1, [&done] { done.push_back(50); });
  }
  REQUIRE(done.size() == 51);
  for (int i = 0; i < 51; ++i) CHECK(done[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("adding waits when too much waits, and work larger than all that may wait is done alone") {
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  WriteQueue queue("test", 10);
  std::atomic<int> waiting = 0;
  for (int i = 0; i < 20; ++i) {
    const std::size_t bytes = i % 5 == 0 ? 100 : 4;
    ++waiting;
    queue.add(bytes, [&] {
      ++running;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      --waiting;
      --running;
    });
    most = std::max(most.load(), waiting.load());
  }
  queue.flush();
  CHECK(running == 0);
  CHECK(most <= 3);  // two of four bytes, and the one that is being added
}

TEST_CASE("a failure is logged by the next call, counted, and what follows is tried") {
  const test::LogCapture log;
  bool came = false;
  WriteQueue queue("test", 100);
  queue.add(1, [] { throw std::runtime_error("no room"); });
  queue.add(1, [&came] { came = true; });
  queue.add(1, [] { throw 3; });  // NOLINT(hicpp-exception-baseclass)
  CHECK(queue.flush() == 2);
  CHECK(came);
  REQUIRE(log.messages().size() == 2);
  CHECK(log.messages()[0] == "test: no room");
  CHECK(queue.flush() == 2);
  CHECK(log.messages().size() == 2);
}

TEST_CASE("a forked child adds nothing and ends") {
  WriteQueue queue("test", 100);
  const pid_t child = ::fork();
  if (child == 0) {
    {
      bool came = false;
      queue.add(1, [&came] { came = true; });
      queue.flush();
      ::_exit(came ? 1 : 0);
    }
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

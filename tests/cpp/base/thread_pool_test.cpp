// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/thread_pool.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "catch.h"

using msprobe::ThreadPool;

TEST_CASE("ThreadPool: every index runs once") {
  for (const unsigned threads : {1U, 2U, 7U}) {
    ThreadPool pool(threads);
    CHECK(pool.size() == threads);
    for (const std::size_t count : {0U, 1U, 2U, 1000U}) {
      std::vector<std::atomic<int>> hits(count);
      pool.parallel_for(count, [&](std::size_t i) { ++hits[i]; });
      for (const auto& hit : hits) REQUIRE(hit == 1);
    }
  }
}

TEST_CASE("ThreadPool: the first exception arrives at the caller and the pool works on") {
  ThreadPool pool(3);
  CHECK_THROWS_AS(pool.parallel_for(100,
                                    [](std::size_t i) {
                                      if (i == 42) throw std::runtime_error("42");
                                    }),
                  std::runtime_error);
  std::atomic<int> sum{0};
  pool.parallel_for(10, [&](std::size_t) { ++sum; });
  CHECK(sum == 10);
}

TEST_CASE("ThreadPool: a call from inside a task runs in place") {
  ThreadPool pool(2);
  std::atomic<int> sum{0};
  pool.parallel_for(4, [&](std::size_t) { pool.parallel_for(5, [&](std::size_t) { ++sum; }); });
  CHECK(sum == 20);
}

TEST_CASE("ThreadPool: callers of several threads take turns") {
  ThreadPool pool(2);
  std::atomic<int> sum{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int i = 0; i < 50; ++i) pool.parallel_for(8, [&](std::size_t) { ++sum; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(sum == 4 * 50 * 8);
}

#if !defined(__SANITIZE_THREAD__)
TEST_CASE("ThreadPool: a forked child works alone and ends") {
  ThreadPool pool(3);
  const pid_t child = fork();
  if (child == 0) {
    int sum = 0;
    pool.parallel_for(10, [&](std::size_t) { ++sum; });
    _exit(sum == 10 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
#endif

TEST_CASE("ThreadPool: 0 takes the cores of the process") { CHECK(ThreadPool(0).size() >= 1); }

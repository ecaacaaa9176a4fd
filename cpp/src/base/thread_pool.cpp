// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/thread_pool.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace msprobe {
namespace {

unsigned usable_cores() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    const int cores = CPU_COUNT(&set);
    if (cores > 0) return static_cast<unsigned>(cores);
  }
  return std::max(1U, std::thread::hardware_concurrency());
}

// True on a thread that is inside parallel_for of any pool.
thread_local bool inside_task = false;

}  // namespace

struct ThreadPool::State {
  unsigned size = 1;
  pid_t process = getpid();
  std::vector<std::thread> workers;
  std::mutex one_caller;

  std::mutex mutex;
  std::condition_variable wake;
  std::condition_variable done;
  bool stop = false;
  std::uint64_t generation = 0;  // counts jobs, so that a worker takes part in each once
  const std::function<void(std::size_t)>* task = nullptr;
  std::size_t next = 0;
  std::size_t count = 0;
  unsigned running = 0;
  std::exception_ptr failure;

  void work() {
    inside_task = true;
    std::unique_lock lock(mutex);
    while (next < count) {
      const std::size_t index = next++;
      lock.unlock();
      try {
        (*task)(index);
        lock.lock();
      } catch (...) {
        lock.lock();
        if (!failure) failure = std::current_exception();
        next = count;
      }
    }
    inside_task = false;
  }

  void worker() {
    // Signals belong to the threads of the program.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    std::uint64_t seen = 0;
    for (;;) {
      {
        std::unique_lock lock(mutex);
        wake.wait(lock, [&] { return stop || generation != seen; });
        if (stop) return;
        seen = generation;
        ++running;
      }
      work();
      const std::lock_guard lock(mutex);
      if (--running == 0) done.notify_all();
    }
  }
};

ThreadPool::ThreadPool(unsigned threads) : state_(std::make_unique<State>()) {
  state_->size = threads == 0 ? usable_cores() : threads;
  state_->workers.reserve(state_->size - 1);
  for (unsigned i = 1; i < state_->size; ++i)
    state_->workers.emplace_back([s = state_.get()] { s->worker(); });
}

ThreadPool::~ThreadPool() {
  if (getpid() != state_->process) {
    // A forked child: the threads are not there, so neither joining them nor destroying their handles is
    // possible.
    static_cast<void>(state_.release());
    return;
  }
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->wake.notify_all();
  for (std::thread& thread : state_->workers) thread.join();
}

unsigned ThreadPool::size() const noexcept { return state_->size; }

void ThreadPool::parallel_for(std::size_t count, const std::function<void(std::size_t)>& task) {
  if (count <= 1 || state_->workers.empty() || inside_task || getpid() != state_->process) {
    for (std::size_t i = 0; i < count; ++i) task(i);
    return;
  }
  const std::lock_guard turn(state_->one_caller);
  {
    const std::lock_guard lock(state_->mutex);
    state_->task = &task;
    state_->next = 0;
    state_->count = count;
    state_->failure = nullptr;
    ++state_->generation;
  }
  state_->wake.notify_all();
  state_->work();
  std::unique_lock lock(state_->mutex);
  // A worker that wakes up only now finds next == count and leaves at once.
  state_->done.wait(lock, [&] { return state_->running == 0; });
  state_->task = nullptr;
  if (state_->failure) std::rethrow_exception(std::exchange(state_->failure, nullptr));
}

}  // namespace msprobe

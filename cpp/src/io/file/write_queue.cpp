// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/file/write_queue.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "msprobe/log.h"

namespace msprobe::io {

struct WriteQueue::State {
  struct Work {
    std::size_t bytes;
    std::function<void()> run;
  };

  State(std::string what_, std::size_t most_bytes_) : what(std::move(what_)), most_bytes(most_bytes_) {}

  const std::string what;
  const std::size_t most_bytes;
  const pid_t process = getpid();
  std::atomic<bool> warned_in_child = false;
  std::thread thread;

  std::mutex mutex;
  std::condition_variable added;  // or the end
  std::condition_variable done;
  std::deque<Work> queue;  // what is being done stays in front
  std::size_t bytes = 0;
  bool ending = false;
  std::int64_t failures = 0;
  std::vector<std::string> unreported;

  bool in_child() const noexcept { return getpid() != process; }

  // Signals belong to the threads of the program. Blocked before the thread starts: it inherits the mask.
  void start() {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      thread = std::thread([this] { run(); });
    } catch (...) {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      added.wait(lock, [this] { return ending || !queue.empty(); });
      if (queue.empty()) return;
      Work& work = queue.front();  // stays where it is while others are added behind it
      lock.unlock();
      std::string problem = attempt(work);
      work.run = nullptr;  // its memory goes back outside the lock, and before more may come
      lock.lock();
      if (!problem.empty()) note(std::move(problem));
      bytes -= work.bytes;
      queue.pop_front();
      done.notify_all();
    }
  }

  // Why it failed; empty when it did not.
  static std::string attempt(const Work& work) noexcept {
    try {
      try {
        work.run();
        return {};
      } catch (const std::exception& error) {
        return error.what();
      }
    } catch (...) {
      return "out of memory";  // short enough to need none itself
    }
  }

  void note(std::string problem) noexcept {
    ++failures;
    try {
      unreported.push_back(std::move(problem));
    } catch (const std::bad_alloc&) {  // counted all the same
    }
  }

  // Not under the mutex: whoever listens to the log may do anything.
  void report() {
    std::vector<std::string> messages;
    {
      const std::lock_guard lock(mutex);
      messages.swap(unreported);
    }
    for (const std::string& message : messages) log(LogLevel::kError, what + ": " + message);
  }
};

WriteQueue::WriteQueue(std::string what, std::size_t most_bytes)
    : state_(std::make_unique<State>(std::move(what), most_bytes)) {
  state_->start();
}

WriteQueue::~WriteQueue() {
  if (state_->in_child()) {
    // The thread is not here: its handle can be neither joined nor destroyed, and the mutex may be held for
    // ever.
    static_cast<void>(state_.release());
    return;
  }
  {
    const std::lock_guard lock(state_->mutex);
    state_->ending = true;
  }
  state_->added.notify_all();
  state_->thread.join();
  state_->report();
}

void WriteQueue::add(std::size_t bytes, std::function<void()> work) {
  State& s = *state_;
  if (s.in_child()) {
    if (!s.warned_in_child.exchange(true)) {
      log(LogLevel::kWarning, s.what + ": a forked process does not record");
    }
    return;
  }
  s.report();
  {
    std::unique_lock lock(s.mutex);
    s.done.wait(lock, [&] { return s.queue.empty() || s.bytes + bytes <= s.most_bytes; });
    s.queue.push_back({bytes, std::move(work)});
    s.bytes += bytes;
  }
  s.added.notify_one();
}

bool WriteQueue::in_child() const noexcept { return state_->in_child(); }

void WriteQueue::wait_for(std::chrono::milliseconds most) {
  State& s = *state_;
  if (s.in_child()) return;
  std::unique_lock lock(s.mutex);
  s.done.wait_for(lock, most, [&s] { return s.queue.empty(); });
}

std::int64_t WriteQueue::flush() {
  State& s = *state_;
  if (s.in_child()) return 0;
  std::int64_t failures = 0;
  {
    std::unique_lock lock(s.mutex);
    s.done.wait(lock, [&s] { return s.queue.empty(); });
    failures = s.failures;
  }
  s.report();
  return failures;
}

}  // namespace msprobe::io

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <set>
#include <thread>
#include <utility>

#include "grad_probe/rank_directory.h"
#include "msprobe/file.h"
#include "msprobe/grad_probe.h"
#include "msprobe/log.h"

namespace msprobe::grad_probe {
namespace {

// How long record() waits for the step before to reach the disk while the buffer has room.
constexpr std::chrono::milliseconds kWaitForPreviousStep{10};

void check(const Options& options) {
  if (options.rank < 0) {
    throw InvalidArgument("gradient probe: rank must be 0 or more, found " + std::to_string(options.rank));
  }
  for (std::size_t i = 0; i < options.bounds.size(); ++i) {
    const double value = options.bounds[i].value;
    if (std::isnan(value) || (i > 0 && !(options.bounds[i - 1].value < value))) {
      throw InvalidArgument("gradient probe: bounds must be numbers in ascending order, found \"" +
                            options.bounds[i].label + "\" at place " + std::to_string(i));
    }
  }
}

std::size_t bytes_of(const std::vector<Measurement>& measurements) {
  std::size_t bytes = 0;
  for (const Measurement& m : measurements) {
    bytes += sizeof(Measurement) + m.name.size() + m.signs.size() +
             sizeof(std::int64_t) * (m.shape.size() + m.summary.interval_counts.size());
  }
  return bytes;
}

// Rank directories with a living Writer of this process: their temporaries are in use.
class DirectoriesInUse {
 public:
  // False when another Writer has it already.
  bool add(const std::filesystem::path& directory) {
    const std::lock_guard lock(mutex_);
    directories_.insert(directory);
    return directories_.count(directory) == 1;
  }
  void remove(const std::filesystem::path& directory) {
    const std::lock_guard lock(mutex_);
    directories_.extract(directory);
  }

 private:
  std::mutex mutex_;
  std::multiset<std::filesystem::path> directories_;
};

// Never destroyed: a Writer may end during program exit.
DirectoriesInUse& directories_in_use() {
  static auto* directories = new DirectoriesInUse;
  return *directories;
}

}  // namespace

struct Writer::State {
  struct Step {
    std::int64_t number;
    std::vector<Measurement> measurements;
    std::size_t bytes;
  };

  explicit State(Options o) : options(std::move(o)) {}

  const Options options;
  std::filesystem::path directory;  // canonical
  const pid_t process = getpid();
  std::atomic<bool> warned_in_child = false;
  std::thread thread;

  std::mutex mutex;
  std::condition_variable work;  // a step was queued, or stop
  std::condition_variable done;  // a step left the queue
  std::deque<Step> queue;        // the step being written stays in front until it is done
  std::size_t queued_bytes = 0;
  std::vector<Measurement> spare;  // of the last step that left the queue
  bool stop = false;
  std::int64_t failures = 0;
  std::vector<std::string> unreported;  // messages for the next call from a thread of the caller

  bool in_child() const noexcept { return getpid() != process; }

  void start_thread() {
    // Signals belong to the threads of the program. Blocked before the thread starts: it inherits the mask.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      thread = std::thread([this] { write_steps(); });
    } catch (...) {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void write_steps() {
    std::unique_lock lock(mutex);
    for (;;) {
      work.wait(lock, [this] { return stop || !queue.empty(); });
      if (queue.empty()) return;
      Step& step = queue.front();  // stays where it is while others are added behind it
      lock.unlock();
      std::string problem = write(step);
      std::vector<Measurement> written = std::move(step.measurements);
      lock.lock();
      spare.swap(written);
      if (!problem.empty()) note(std::move(problem));
      queued_bytes -= step.bytes;
      queue.pop_front();
      done.notify_all();
      if (written.empty()) continue;
      lock.unlock();  // the spare that nobody took is freed outside the lock
      std::vector<Measurement>().swap(written);
      lock.lock();
    }
  }

  // Why the step could not be written; empty when it was.
  std::string write(const Step& step) const noexcept {
    try {
      try {
        write_step(options, step.number, step.measurements);
        return {};
      } catch (const std::exception& error) {
        return "gradient probe: step " + std::to_string(step.number) + " is not recorded: " + error.what();
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

  // Logs what happened on the writing thread. Not under the mutex: the sink may do anything.
  void report() {
    std::vector<std::string> messages;
    {
      const std::lock_guard lock(mutex);
      messages.swap(unreported);
    }
    for (const std::string& message : messages) log(LogLevel::kError, message);
  }

  bool has_room(std::size_t bytes) const {
    return queue.empty() ||
           (queued_bytes <= options.buffer_bytes && bytes <= options.buffer_bytes - queued_bytes);
  }
};

Writer::Writer(Options options) : state_(std::make_unique<State>(std::move(options))) {
  check(state_->options);
  const std::filesystem::path directory = rank_directory(state_->options.dump_path, state_->options.rank);
  io::make_directories(directory);
  if (::access(directory.c_str(), W_OK | X_OK) != 0) {
    throw IoError("cannot write into the directory", directory.string(), errno);
  }
  state_->directory = std::filesystem::canonical(directory);
  const bool alone = directories_in_use().add(state_->directory);
  remove_stale_temporaries(directory, alone);
  try {
    state_->start_thread();
  } catch (...) {
    directories_in_use().remove(state_->directory);
    throw;
  }
}

Writer::~Writer() {
  if (state_->in_child()) {
    // The thread is not here: its handle can be neither joined nor destroyed, and the mutex may be held for
    // ever.
    static_cast<void>(state_.release());
    return;
  }
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->work.notify_all();
  state_->thread.join();
  state_->report();
  directories_in_use().remove(state_->directory);
}

void Writer::record(std::int64_t step, std::vector<Measurement> measurements) {
  State& s = *state_;
  if (s.in_child()) {
    if (!s.warned_in_child.exchange(true)) {
      log(LogLevel::kWarning, "gradient probe: a forked process does not record gradients");
    }
    return;
  }
  s.report();
  const std::size_t bytes = bytes_of(measurements);
  {
    std::unique_lock lock(s.mutex);
    s.done.wait_for(lock, kWaitForPreviousStep, [&s] { return s.queue.empty(); });
    s.done.wait(lock, [&s, bytes] { return s.has_room(bytes); });
    s.queue.push_back({step, std::move(measurements), bytes});
    s.queued_bytes += bytes;
  }
  s.work.notify_one();
}

std::vector<Measurement> Writer::spare() {
  if (state_->in_child()) return {};
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->spare, {});
}

std::int64_t Writer::flush() {
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

const Options& Writer::options() const noexcept { return state_->options; }

}  // namespace msprobe::grad_probe

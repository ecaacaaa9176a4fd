// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "msprobe/export.h"

namespace msprobe {

/// A fixed set of worker threads owned by one job. The calling thread works too, so a pool of 1 starts no
/// thread.
class MSPROBE_API ThreadPool {
 public:
  /// `threads` = 0 takes all cores this process may run on.
  explicit ThreadPool(unsigned threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  unsigned size() const noexcept;

  /// Calls `task(i)` once for every i in [0, count), in no fixed order, and returns when all have run. The
  /// first exception is rethrown here after all running tasks have ended. Calls from several threads take
  /// turns; a call from inside a task runs in place. After fork() the child runs everything in place (threads
  /// are not inherited).
  void parallel_for(std::size_t count, const std::function<void(std::size_t)>& task);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace msprobe

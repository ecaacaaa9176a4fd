// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

#include "msprobe/thread_pool.h"

namespace msprobe::trace {

/// Calls `task(i)` for every i in [0, count): in the threads of `pool`; null: one after the other.
inline void in_threads(ThreadPool* pool, std::size_t count, const std::function<void(std::size_t)>& task) {
  if (pool != nullptr) return pool->parallel_for(count, task);
  for (std::size_t i = 0; i < count; ++i) task(i);
}

}  // namespace msprobe::trace

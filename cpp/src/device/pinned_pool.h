// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "device/device.h"
#include "device/waits.h"

namespace msprobe::device {

/// Pinned memory of the host, used again and again. Thread-safe.
class PinnedPool {
 public:
  explicit PinnedPool(std::shared_ptr<Waits> waits) : waits_(std::move(waits)) {}

  Waits& waits() const { return *waits_; }

  /// At least so many bytes, and how many there are.
  std::pair<std::shared_ptr<void>, std::size_t> take(Device& device, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto is_free = [](const Free& one) { return !one.mark || one.mark->has_passed(); };
    const auto found = std::find_if(free_.begin(), free_.end(),
                                    [&](const Free& one) { return one.bytes >= bytes && is_free(one); });
    if (found != free_.end()) {
      std::pair taken(std::move(found->memory), found->bytes);
      free_.erase(found);
      return taken;
    }
    std::erase_if(free_, is_free);  // too small
    return {device.host_memory(bytes), bytes};
  }

  /// `mark`: when nothing is written there any more.
  void give(std::shared_ptr<void> memory, std::size_t bytes, std::unique_ptr<Mark> mark) {
    const std::lock_guard lock(mutex_);
    free_.push_back({std::move(memory), bytes, std::move(mark)});
  }

 private:
  struct Free {
    std::shared_ptr<void> memory;
    std::size_t bytes;
    std::unique_ptr<Mark> mark;
  };
  std::shared_ptr<Waits> waits_;
  std::mutex mutex_;
  std::vector<Free> free_;
};

}  // namespace msprobe::device

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>

#include "device/device.h"

namespace msprobe::device {

/// How often somebody waited for a device, as a program that should wait for nothing is tested by.
class Waits {
 public:
  void wait_for(Mark& mark) {
    if (mark.has_passed()) return;
    ++count_;
    mark.wait();
  }

  std::size_t count() const noexcept { return count_; }

 private:
  std::atomic<std::size_t> count_ = 0;
};

}  // namespace msprobe::device

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What the meter needs of a device. CUDA has one implementation (cuda_device.h); for tests the processor
/// stands in for a device (host_device.h).

#include <cstddef>
#include <memory>
#include <string>

#include "device/kernel.h"

namespace msprobe::device {

/// A queue of work on a device, as its driver knows it.
using Stream = void*;

/// A moment in a stream: what was queued before it is done when it has passed.
class Mark {
 public:
  virtual ~Mark() = default;
  virtual bool has_passed() = 0;
  virtual void wait() = 0;
};

/// All calls may come from any thread. None but wait() waits for the device; allocations may, so they are
/// made at the first use of a stream. Errors of a driver are UnsupportedError with the driver's words.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;

  /// Blocks of kThreads threads that the device works on at once.
  virtual unsigned blocks_at_once() const = 0;

  /// Whether what is queued now is captured, to be repeated later, in place of being done.
  virtual bool is_capturing(Stream stream) = 0;

  /// Memory of the device, all zero for what is queued behind.
  virtual std::shared_ptr<void> memory(Stream stream, std::size_t bytes) = 0;
  /// Memory of the host that copies reach without waiting, and that kernels can read.
  virtual std::shared_ptr<void> host_memory(std::size_t bytes) = 0;

  virtual void launch(Stream stream, const Table& table, unsigned blocks) = 0;
  virtual void copy_to_host(Stream stream, void* to, const void* from, std::size_t bytes) = 0;
  virtual std::unique_ptr<Mark> mark(Stream stream) = 0;
};

}  // namespace msprobe::device

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "device/device.h"
#include "device/waits.h"

namespace msprobe::device {

/// Brings memory of a device to the host through two pinned buffers: one is emptied while the other is
/// filled. Takes nothing on the device. Thread-safe, one user after the other.
class ToHost {
 public:
  static constexpr std::size_t kBytes = std::size_t{2} << 20;

  explicit ToHost(std::shared_ptr<Waits> waits) : waits_(std::move(waits)) {}

  /// Takes at most kBytes of the device, as the stream finds them when it comes to them.
  using Add = std::function<void(const void* from, std::size_t bytes)>;

  /// Gets them on the host, in the order in which they were added.
  using Take = std::function<void(const std::byte* from, std::size_t bytes)>;

  /// Brings what `pieces` adds to `take`, and waits for it. Throws UnsupportedError while the stream is
  /// captured.
  void bring(Device& device, Stream stream, const std::function<void(const Add&)>& pieces, const Take& take);

 private:
  struct Buffer {
    std::shared_ptr<void> memory;
    std::unique_ptr<Mark> mark;  // null: nothing is on its way
    std::size_t bytes = 0;
  };
  void empty(Buffer& buffer, const Take& take);

  std::shared_ptr<Waits> waits_;
  std::mutex mutex_;
  std::array<Buffer, 2> buffers_;
};

}  // namespace msprobe::device

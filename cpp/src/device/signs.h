// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "device/device.h"
#include "device/waits.h"
#include "msprobe/export.h"
#include "msprobe/tensor_view.h"

namespace msprobe::device {

/// A bit of each element of a tensor that is not complex, set where it is greater than zero, the first one of
/// a byte is the lowest.
struct Signs {
  TensorView view;
  std::span<std::uint8_t> to;  // of stats::sign_bytes()
};

class PinnedPool;

/// Signs on their way to the host.
class MSPROBE_API ComingSigns {
 public:
  ComingSigns(std::shared_ptr<PinnedPool> bits, std::shared_ptr<PinnedPool> tables);
  ~ComingSigns();
  ComingSigns(const ComingSigns&) = delete;
  ComingSigns& operator=(const ComingSigns&) = delete;

  /// Puts them where they were asked to go to, which must be there still. Waits for what has not come.
  void finish();

 private:
  friend class SignsToHost;
  struct Part {
    std::uint8_t* to;
    std::size_t bytes;
    std::size_t words;  // from the start of the next one
  };
  struct Piece {
    std::size_t from;  // in the host's memory
    std::size_t bytes;
    std::unique_ptr<Mark> mark;
    std::vector<Part> parts;
  };

  std::byte* room_for(std::size_t bytes);
  void empty_first();

  std::shared_ptr<PinnedPool> bits_pool_, tables_pool_;
  std::vector<std::shared_ptr<void>> tables_;  // which kernels may still read
  std::shared_ptr<void> memory_;               // of the host, a ring of pieces
  std::size_t capacity_ = 0;
  std::size_t end_ = 0;  // of the newest piece
  std::deque<Piece> pieces_;
};

/// Brings signs to the host through 2 MB of the device, which are used again and again: a stream does one
/// thing behind the other. Thread-safe.
class MSPROBE_API SignsToHost {
 public:
  static constexpr std::size_t kMostOnHost = std::size_t{256} << 20;  // two thousand million elements
  static constexpr std::size_t kBytes = std::size_t{2} << 20;         // of the device

  /// At most `most_on_host` bytes, and at least kBytes, wait in pinned memory: who begins more waits for the
  /// first of them.
  explicit SignsToHost(std::shared_ptr<Waits> waits, std::size_t most_on_host = kMostOnHost);

  /// Queues kernels and copies, and adds the kernels to `launches`. Throws UnsupportedError while the stream
  /// is captured.
  std::unique_ptr<ComingSigns> begin(Device& device, Stream stream, std::span<const Signs> tensors,
                                     std::size_t& launches);

 private:
  std::shared_ptr<Waits> waits_;
  std::size_t most_on_host_;
  std::mutex mutex_;
  std::shared_ptr<PinnedPool> bits_pool_, tables_pool_;
  std::shared_ptr<void> words_;  // of the device
  Stream last_stream_ = nullptr;
  std::unique_ptr<Mark> last_;  // when its words are read no more
};

}  // namespace msprobe::device

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace msprobe::io {

/// Work that a training hands to one thread behind it: files to be written. It is done in the order in which
/// it came. What the work throws never reaches the training: it is logged by the next call from a thread of
/// the caller.
///
/// Safe in a process that forks: in the child nothing is done, with one warning. All methods may be called
/// from any thread.
class WriteQueue {
 public:
  /// `what` begins the messages. Work that waits holds at most `most_bytes`; beyond it add() waits.
  WriteQueue(std::string what, std::size_t most_bytes);
  /// Waits until everything is done.
  ~WriteQueue();
  WriteQueue(const WriteQueue&) = delete;
  WriteQueue& operator=(const WriteQueue&) = delete;

  /// `bytes`: the memory that `work` holds. Work of more than all there may be waits for an empty queue.
  void add(std::size_t bytes, std::function<void()> work);

  /// Waits until everything that was added is done, but no longer than this.
  void wait_for(std::chrono::milliseconds most);

  /// Waits until everything that was added is done. Returns how much of it has failed so far.
  std::int64_t flush();

  /// Whether this is a process that was forked from the one of the queue: nothing is done in it.
  bool in_child() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace msprobe::io

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "msprobe/thread_pool.h"

namespace msprobe::io {

/// Compresses text that arrives in pieces into one deflate stream (RFC 1951). It is cut into blocks that are
/// compressed on their own, several at a time, so the bytes do not depend on the number of threads.
class DeflateStream {
 public:
  /// `sink` takes the compressed bytes in order, on the calling thread. Pool and sink outlive the stream.
  DeflateStream(ThreadPool& pool, const std::function<void(std::string_view)>& sink);

  void add(std::string_view text);

  struct Totals {
    std::uint32_t crc;  // of the text
    std::uint64_t stored_size;
    std::uint64_t size;
  };
  /// Ends the stream; the next add() begins another.
  Totals finish();

 private:
  void compress_pending();

  ThreadPool& pool_;
  const std::function<void(std::string_view)>& sink_;
  std::string pending_;
  Totals totals_{};
};

}  // namespace msprobe::io

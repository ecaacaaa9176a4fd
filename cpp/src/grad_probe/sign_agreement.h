// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "grad_probe/agreements.h"
#include "grad_probe/signs.h"

namespace msprobe::grad_probe {

/// Scratch memory of one thread.
struct SignBuffers {
  std::vector<std::uint8_t> first;
  std::vector<std::uint8_t> second;
};

/// Called between two reads: a place to report progress, or to stop by throwing.
using Pause = std::function<void()>;

/// The signs of one parameter and step on both sides. Every byte other than 0 counts as true.
class DirectionPair {
 public:
  /// Throws Incomparable where the shapes are not equal.
  DirectionPair(std::unique_ptr<Signs> first, std::unique_ptr<Signs> second);

  std::int64_t count() const noexcept { return first_->count(); }

  /// Of both sides; nullopt: not both are known without reading, or they are in another order.
  std::optional<SignHashes> hashes() const noexcept;

  /// True when element i of both files is the same one.
  bool same_order() const noexcept;

  /// Number of elements with equal signs. Memory: 256 KiB a side, and at most 32 MiB more when the sides have
  /// their elements in another order.
  std::int64_t count_equal(SignBuffers& buffers, const Pause& pause) const;

  /// The same for the elements [begin, end) of sides with the same order; thread-safe with buffers of one's
  /// own.
  std::int64_t count_equal(std::int64_t begin, std::int64_t end, SignBuffers& buffers,
                           const Pause& pause) const;

 private:
  std::int64_t count_equal_other_order(SignBuffers& buffers, const Pause& pause) const;

  std::unique_ptr<Signs> first_;
  std::unique_ptr<Signs> second_;
};

}  // namespace msprobe::grad_probe

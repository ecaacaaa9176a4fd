// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "msprobe/content_hash.h"

namespace msprobe::grad_probe {

/// The signs of a parameter on two sides.
struct SignHashes {
  ContentHash first;
  ContentHash second;
  std::int64_t count;

  bool operator==(const SignHashes&) const = default;
};

/// How many signs are equal, of pairs that were compared. Thread-safe.
class Agreements {
 public:
  std::optional<std::int64_t> find(const SignHashes& pair) const {
    const std::lock_guard lock(mutex_);
    const auto found = equal_.find(pair);
    return found == equal_.end() ? std::nullopt : std::optional(found->second);
  }
  void add(const SignHashes& pair, std::int64_t equal) {
    const std::lock_guard lock(mutex_);
    if (equal_.size() >= kMost) equal_.clear();
    equal_.emplace(pair, equal);
  }

 private:
  static constexpr std::size_t kMost = std::size_t{1} << 18;  // some 20 MiB

  struct Hash {
    std::size_t operator()(const SignHashes& pair) const noexcept {
      return static_cast<std::size_t>(pair.first.low ^ pair.second.high);
    }
  };
  mutable std::mutex mutex_;
  std::unordered_map<SignHashes, std::int64_t, Hash> equal_;
};

}  // namespace msprobe::grad_probe

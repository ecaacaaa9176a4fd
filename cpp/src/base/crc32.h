// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/crc32_fold.h"

namespace msprobe {

/// CRC-32 of zlib, gzip and PNG (polynomial 0xEDB88320, RFC 1952 section 8) of a message that comes in pieces
/// of any length. Fastest with pieces that are multiples of 512 bytes. Costs nothing to make; not
/// thread-safe.
class Crc32 {
 public:
  explicit Crc32(const Crc32Folding* folding = best_crc32_folding()) noexcept : folding_(folding) {}

  void add(const void* data, std::size_t bytes) noexcept;

  /// Adds bfloat16 elements as the float32 values that they are: four bytes each, little endian.
  void add_widened(const std::uint16_t* bfloat16, std::size_t count) noexcept;

  /// For loops that fold by themselves, where best_crc32_folding() is not null: the message so far. The
  /// caller adds steps of together `bytes` bytes to it before anything else is called.
  FoldedCrc32& folded(std::uint64_t bytes) noexcept;

  /// CRC-32 of what was added, 0 of nothing. More can be added afterwards.
  std::uint32_t value() const noexcept;

  /// Length of what was added.
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  const Crc32Folding* folding_;  // null: libdeflate does everything
  std::uint64_t bytes_ = 0;
  std::uint32_t crc_ = 0;  // meaningless while is_folded_
  bool is_folded_ = false;
  FoldedCrc32 folded_;
};

/// CRC-32 of A followed by B, from the CRC-32 of each and the length of B. CRC-32 is linear over GF(2):
/// appending n bytes multiplies the polynomial of A by x^(8n) modulo the generator.
std::uint32_t crc32_combine(std::uint32_t crc_a, std::uint32_t crc_b, std::uint64_t bytes_b) noexcept;

/// CRC-32 of a message that goes on with `data`; `crc` is that of what came before, 0 at the start.
inline std::uint32_t crc32(std::uint32_t crc, const void* data, std::size_t bytes) noexcept {
  Crc32 next;
  next.add(data, bytes);
  return crc == 0 ? next.value() : crc32_combine(crc, next.value(), bytes);
}

}  // namespace msprobe

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "base/crc32.h"

#include <libdeflate.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/crc32_polynomial.h"

namespace msprobe {

FoldedCrc32& Crc32::folded(std::uint64_t bytes) noexcept {
  if (!is_folded_) {
    // The CRC is the remainder of the message times x^32, both ends inverted. x^(2^32 - 1) is 1.
    constexpr std::uint32_t inverse = crc32_power_of_x(0xFFFFFFFF - 32);
    constexpr std::uint32_t empty = crc32_multiply(0xFFFFFFFF, inverse);
    const std::uint32_t remainder = crc_ == 0 ? empty : crc32_multiply(~crc_, inverse);
    std::memset(folded_.bytes, 0, folding_->step);
    std::memcpy(folded_.bytes + folding_->step - sizeof remainder, &remainder, sizeof remainder);
    is_folded_ = true;
  }
  bytes_ += bytes;
  return folded_;
}

void Crc32::add(const void* data, std::size_t bytes) noexcept {
  if (bytes == 0) return;
  const auto* rest = static_cast<const std::uint8_t*>(data);
  if (folding_ != nullptr && bytes >= folding_->step) {
    const std::size_t steps = bytes / folding_->step;
    folding_->add(folded(steps * folding_->step), rest, steps);
    rest += steps * folding_->step;
    bytes -= steps * folding_->step;
    if (bytes == 0) return;
  }
  bytes_ += bytes;
  crc_ = is_folded_ ? folding_->finish(folded_, rest, bytes) : libdeflate_crc32(crc_, rest, bytes);
  is_folded_ = false;
}

void Crc32::add_widened(const std::uint16_t* bfloat16, std::size_t count) noexcept {
  if (folding_ != nullptr && count >= folding_->step / 4) {
    const std::size_t steps = count / (folding_->step / 4);
    folding_->add_widened(folded(steps * folding_->step), bfloat16, steps);
    bfloat16 += steps * (folding_->step / 4);
    count -= steps * (folding_->step / 4);
  }
  std::array<std::uint32_t, 256> wide;
  while (count > 0) {
    const std::size_t n = std::min(count, wide.size());
    std::transform(bfloat16, bfloat16 + n, wide.begin(),
                   [](std::uint16_t bits) { return std::uint32_t{bits} << 16; });
    add(wide.data(), n * sizeof(std::uint32_t));
    bfloat16 += n;
    count -= n;
  }
}

std::uint32_t Crc32::value() const noexcept {
  return is_folded_ ? folding_->finish(folded_, nullptr, 0) : crc_;
}

std::uint32_t crc32_combine(std::uint32_t crc_a, std::uint32_t crc_b, std::uint64_t bytes_b) noexcept {
  return crc32_multiply(crc_a, crc32_power_of_x(8 * bytes_b)) ^ crc_b;
}

}  // namespace msprobe

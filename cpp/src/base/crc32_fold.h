// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// CRC-32 by folding with carry-less multiplication, after V. Gopal et al., "Fast CRC Computation for Generic
/// Polynomials Using PCLMULQDQ Instruction", Intel, 2009, on vectors of 256 or 512 bits.
///
/// A message is a polynomial over GF(2), its first bit the highest power. Only its remainder counts, so a
/// vector of it can be moved to the place of a later one: multiplied by x^distance, reduced a little, and
/// added there. Several vectors are on their way at once, since a multiplication takes some cycles.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace msprobe {

/// A message in form of the few bytes, a step of them, that leave the same remainder.
struct alignas(64) FoldedCrc32 {
  std::uint8_t bytes[512];
};

/// The method for one instruction set. A step is `step` bytes of the message.
struct Crc32Folding {
  std::string_view instruction_set;  // the name that stats::instruction_set() has for it
  std::size_t step;

  // Add `steps` steps to the message in `folded`. The second one widens bfloat16 elements to float32, so that
  // a step is step / 4 elements.
  void (*add)(FoldedCrc32& folded, const std::uint8_t* data, std::size_t steps);
  void (*add_widened)(FoldedCrc32& folded, const std::uint16_t* data, std::size_t steps);

  // CRC-32 of the message that is in `folded` and then the `count` bytes of `rest`, less than a step.
  std::uint32_t (*finish)(const FoldedCrc32& folded, const std::uint8_t* rest, std::size_t count);
};

/// The fastest for this processor, null where it has none: that with carry-less multiplication of single
/// 128-bit registers is left to libdeflate. The environment variable MSPROBE_INSTRUCTION_SET, read once,
/// allows only the one of this name.
const Crc32Folding* best_crc32_folding() noexcept;

/// The one of this instruction set; null where this processor or build does not have it.
const Crc32Folding* find_crc32_folding(std::string_view instruction_set) noexcept;

}  // namespace msprobe

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// The folding for one instruction set. crc32_fold.cpp includes this file once for each, in a namespace that
// has Register, load(), store(), broadcast(), and fold_onto(). No #pragma once.

constexpr std::size_t kRegisters = 8;  // on their way at once
constexpr std::size_t kStep = kRegisters * sizeof(Register);
static_assert(kStep <= sizeof(FoldedCrc32));

template <typename Element>
void add(FoldedCrc32& folded, const Element* data, std::size_t steps) {
  constexpr std::size_t width = sizeof(Register) / kMessageBytes<Element>;
  const Register factors = broadcast(kCrc32Factors<kStep>);
  Register registers[kRegisters];
  for (std::size_t r = 0; r < kRegisters; ++r) registers[r] = load(folded.bytes + r * sizeof(Register));
  for (; steps > 0; --steps, data += kRegisters * width) {
    prefetch(data, kRegisters * width * sizeof(Element));
    for (std::size_t r = 0; r < kRegisters; ++r) {
      registers[r] = fold_onto(load(data + r * width), registers[r], factors);
    }
  }
  for (std::size_t r = 0; r < kRegisters; ++r) store(registers[r], folded.bytes + r * sizeof(Register));
}

// Folds 2 * half registers to half as many.
template <std::size_t half>
void halve(Register* registers) {
  const Register factors = broadcast(kCrc32Factors<half * sizeof(Register)>);
  for (std::size_t r = 0; r < half; ++r) {
    registers[r] = fold_onto(registers[r + half], registers[r], factors);
  }
}

std::uint32_t finish(const FoldedCrc32& folded, const std::uint8_t* rest, std::size_t count) {
  Register registers[kRegisters];
  for (std::size_t r = 0; r < kRegisters; ++r) registers[r] = load(folded.bytes + r * sizeof(Register));
  halve<4>(registers);
  halve<2>(registers);
  halve<1>(registers);
  const Register factors = broadcast(kCrc32Factors<sizeof(Register)>);
  for (; count >= sizeof(Register); count -= sizeof(Register), rest += sizeof(Register)) {
    registers[0] = fold_onto(load(rest), registers[0], factors);
  }
  alignas(Register) std::uint8_t last[sizeof(Register)];
  store(registers[0], last);
  // libdeflate inverts at the start and at the end, as the definition says; what is folded has had the first.
  const std::uint32_t crc = libdeflate_crc32(~0U, last, sizeof last);
  return count == 0 ? crc : libdeflate_crc32(crc, rest, count);
}

constexpr Crc32Folding kFolding{kInstructionSet, kStep, add<std::uint8_t>, add<std::uint16_t>, finish};

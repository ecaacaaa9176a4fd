// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// The folding for one instruction set. crc32_fold.cpp includes this file once for each, in a namespace that
// has Register, load(), store(), broadcast(), fold_onto(), Bytes and WidenedBFloat16. No #pragma once.

constexpr std::size_t kRegisters = 8;  // on their way at once
constexpr std::size_t kStep = kRegisters * sizeof(Register);
static_assert(kStep <= sizeof(FoldedCrc32));

template <typename Message>
void add(FoldedCrc32& folded, const typename Message::Element* data, std::size_t steps) {
  using Element = typename Message::Element;
  constexpr std::size_t pair = 2 * sizeof(Register) / (sizeof(Element) == 1 ? 1 : 4);  // elements
  const Register factors = broadcast(kCrc32Factors<kStep>);
  Register registers[kRegisters];
  for (std::size_t r = 0; r < kRegisters; r += 2) {
    Message::load(folded.bytes + r * sizeof(Register), registers[r], registers[r + 1]);
  }
  for (; steps > 0; --steps) {
    prefetch(data, kRegisters / 2 * pair * sizeof(Element));
    for (std::size_t r = 0; r < kRegisters; r += 2, data += pair) {
      Register a;
      Register b;
      Message::read(data, a, b);
      registers[r] = fold_onto(a, registers[r], factors);
      registers[r + 1] = fold_onto(b, registers[r + 1], factors);
    }
  }
  for (std::size_t r = 0; r < kRegisters; r += 2) {
    Message::store(registers[r], registers[r + 1], folded.bytes + r * sizeof(Register));
  }
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

constexpr Crc32Folding kFolding{kInstructionSet, kStep, add<Bytes>, add<WidenedBFloat16>, finish};

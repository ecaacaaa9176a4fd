// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "base/crc32.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/random_bytes.h"
#include "catch.h"

namespace msprobe {
namespace {

using test::random_bytes;

// Every way that this processor has; null is libdeflate alone.
std::vector<const Crc32Folding*> methods() {
  std::vector<const Crc32Folding*> found{nullptr};
  for (const char* instruction_set : {"AVX3", "AVX2"}) {
    if (const Crc32Folding* folding = find_crc32_folding(instruction_set)) found.push_back(folding);
  }
  return found;
}

std::string name_of(const Crc32Folding* folding) {
  return folding == nullptr ? "libdeflate" : std::string(folding->instruction_set);
}

// RFC 1952, section 8, bit by bit; `crc` is that of the bytes before.
std::uint32_t by_definition(std::uint32_t crc, const std::uint8_t* bytes, std::size_t count) {
  crc = ~crc;
  for (std::size_t i = 0; i < count; ++i) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0xEDB88320U : 0);
  }
  return ~crc;
}

std::uint32_t crc_of(const Crc32Folding* folding, const void* data, std::size_t bytes) {
  Crc32 crc(folding);
  crc.add(data, bytes);
  return crc.value();
}

// The bytes of the elements as float32.
std::vector<std::uint8_t> widened(const std::uint16_t* bfloat16, std::size_t count) {
  std::vector<std::uint8_t> bytes(4 * count);
  for (std::size_t i = 0; i < count; ++i) {
    bytes[4 * i + 2] = static_cast<std::uint8_t>(bfloat16[i]);
    bytes[4 * i + 3] = static_cast<std::uint8_t>(bfloat16[i] >> 8);
  }
  return bytes;
}

TEST_CASE("crc32: the check value of its definition") {
  for (const Crc32Folding* folding : methods()) CHECK(crc_of(folding, "123456789", 9) == 0xCBF43926);
  CHECK(Crc32().value() == 0);
  CHECK(Crc32().bytes() == 0);
}

TEST_CASE("crc32: every length from 0 to 4096, at changing alignment") {
  const auto bytes = random_bytes(4096 + 64);
  for (const Crc32Folding* folding : methods()) {
    INFO(name_of(folding));
    std::size_t wrong = 0;
    for (std::size_t offset : {0, 1, 13, 63}) {
      std::uint32_t expected = 0;
      for (std::size_t length = 0; length <= 4096; ++length) {
        wrong += crc_of(folding, bytes.data() + offset, length) != expected;
        expected = by_definition(expected, bytes.data() + offset + length, 1);
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("crc32: a message in pieces of any length has the checksum of the whole") {
  const auto bytes = random_bytes(20'000);
  const std::uint32_t expected = by_definition(0, bytes.data(), bytes.size());
  std::mt19937 random(11);
  for (const Crc32Folding* folding : methods()) {
    INFO(name_of(folding));
    for (int round = 0; round < 200; ++round) {
      Crc32 crc(folding);
      std::size_t at = 0;
      while (at < bytes.size()) {
        // Whole steps, lengths around them, and short ones.
        const std::size_t wanted = random() % 2 == 0 ? 256 * (random() % 8) : random() % 1200;
        const std::size_t piece = std::min(wanted, bytes.size() - at);
        crc.add(bytes.data() + at, piece);
        at += piece;
        if (random() % 8 == 0) static_cast<void>(crc.value());  // looking changes nothing
      }
      REQUIRE(crc.value() == expected);
      REQUIRE(crc.bytes() == bytes.size());
    }
  }
}

TEST_CASE("crc32: bfloat16 elements count as the float32 values that they are") {
  const auto bytes = random_bytes(2 * (4096 + 32));
  std::vector<std::uint16_t> elements(bytes.size() / 2);
  std::memcpy(elements.data(), bytes.data(), bytes.size());
  for (const Crc32Folding* folding : methods()) {
    INFO(name_of(folding));
    std::size_t wrong = 0;
    for (std::size_t first : {0, 1, 31}) {
      const auto wide = widened(elements.data() + first, 4096);
      std::uint32_t expected = 0;
      for (std::size_t count = 0; count <= 4096; ++count) {
        Crc32 crc(folding);
        crc.add_widened(elements.data() + first, count / 3);
        crc.add_widened(elements.data() + first + count / 3, count - count / 3);
        wrong += crc.value() != expected || crc.bytes() != 4 * count;
        if (count < 4096) expected = by_definition(expected, wide.data() + 4 * count, 4);
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("crc32: bytes and bfloat16 elements in one message") {
  const auto bytes = random_bytes(2048);
  std::vector<std::uint16_t> elements(1024);
  std::memcpy(elements.data(), bytes.data(), bytes.size());
  const auto wide = widened(elements.data(), elements.size());
  const std::uint32_t expected =
      by_definition(by_definition(0, bytes.data(), bytes.size()), wide.data(), wide.size());
  for (const Crc32Folding* folding : methods()) {
    INFO(name_of(folding));
    Crc32 crc(folding);
    crc.add(bytes.data(), bytes.size());
    crc.add_widened(elements.data(), elements.size());
    CHECK(crc.value() == expected);
  }
}

TEST_CASE("crc32: combined from two parts of any length") {
  const auto bytes = random_bytes(3000);
  const std::uint32_t whole = by_definition(0, bytes.data(), bytes.size());
  for (std::size_t split : {0, 1, 7, 512, 1000, 2999, 3000}) {
    const std::uint32_t a = by_definition(0, bytes.data(), split);
    const std::uint32_t b = by_definition(0, bytes.data() + split, bytes.size() - split);
    CHECK(crc32_combine(a, b, bytes.size() - split) == whole);
  }
  // Terabytes, whose length in bits is far beyond 32 bits: it does not matter what is joined first.
  std::uint32_t zeros = by_definition(0, std::vector<std::uint8_t>(1).data(), 1);
  for (int k = 0; k < 40; ++k) zeros = crc32_combine(zeros, zeros, std::uint64_t{1} << k);
  constexpr std::uint64_t length = std::uint64_t{1} << 40;
  CHECK(crc32_combine(crc32_combine(whole, zeros, length), zeros, length) ==
        crc32_combine(whole, crc32_combine(zeros, zeros, length), 2 * length));
}

}  // namespace
}  // namespace msprobe

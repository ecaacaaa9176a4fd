// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/content_hash.h"

#include <random>
#include <vector>

#include "base/random_bytes.h"
#include "catch.h"

namespace msprobe {
namespace {

using test::random_bytes;

TEST_CASE("hash_part: the hashes of parts add up to that of the whole, wherever it is cut") {
  const std::vector<std::uint8_t> bytes = random_bytes(20'011);
  const ContentHash whole = hash_part(bytes.data(), bytes.size(), 0);
  std::mt19937 generator(2);
  for (int trial = 0; trial < 200; ++trial) {
    ContentHash sum;
    for (std::size_t begin = 0; begin < bytes.size();) {
      const std::size_t most = trial % 2 == 0 ? 7 : 6000;
      const std::size_t count = std::min<std::size_t>(1 + generator() % most, bytes.size() - begin);
      sum += hash_part(bytes.data() + begin, count, begin);
      begin += count;
    }
    REQUIRE(sum == whole);
  }
}

TEST_CASE("hash_part: the place of each byte counts") {
  std::vector<std::uint8_t> bytes = random_bytes(10'000);
  const ContentHash before = hash_part(bytes.data(), bytes.size(), 0);
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 97) {
    if (bytes[i] == bytes[i + 1]) continue;
    std::swap(bytes[i], bytes[i + 1]);
    CHECK_FALSE(hash_part(bytes.data(), bytes.size(), 0) == before);
    std::swap(bytes[i], bytes[i + 1]);
  }
  // Words of different blocks exchanged.
  std::swap_ranges(bytes.begin(), bytes.begin() + 4096, bytes.begin() + 4096);
  CHECK_FALSE(hash_part(bytes.data(), bytes.size(), 0) == before);
  CHECK_FALSE(hash_part(bytes.data(), 100, 0) == hash_part(bytes.data(), 100, 4));
}

TEST_CASE("hash_part: sign bits of many elements") {
  std::vector<std::uint8_t> bytes(1 << 16);
  const ContentHash zeros = hash_part(bytes.data(), bytes.size(), 0);
  CHECK(zeros == ContentHash());
  bytes[3] ^= 0x80;
  bytes[7] ^= 0x80;
  CHECK_FALSE(hash_part(bytes.data(), bytes.size(), 0) == zeros);
}

TEST_CASE("ContentHash: 32 digits") {
  CHECK(ContentHash{0x1, 0xAB}.text() == "00000000000000ab0000000000000001");
}

}  // namespace
}  // namespace msprobe

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "msprobe/error.h"

/// Bytes of a packed record (docs/formats/grad_probe.md, 1.4), little endian.
namespace msprobe::grad_probe::packed {

static_assert(std::endian::native == std::endian::little);

inline constexpr std::string_view kMagic{"MSPGRAD\x01", 8};  // the last byte is the version
inline constexpr std::uint32_t kStepMark = 0x50455453;       // "STEP"
inline constexpr std::uint32_t kHasSigns = 1;

/// In front of each step. Behind it come `index_bytes` of descriptions and `sign_bytes` of bits.
struct Head {
  std::uint32_t mark;
  std::uint32_t crc;  // CRC-32 of the rest of the head and of the descriptions
  std::int64_t step;
  std::uint64_t index_bytes;
  std::uint64_t sign_bytes;
  std::uint32_t parameters;
  std::uint32_t flags;
};
static_assert(sizeof(Head) == 40);
inline constexpr std::size_t kNotInCrc = 8;  // bytes of a head

template <typename T>
void put(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

inline void put_text(std::string& out, std::string_view text) {
  put(out, static_cast<std::uint64_t>(text.size()));
  out += text;
}

/// Takes values from the front of bytes that may be too short; throws FormatError then.
class Taker {
 public:
  Taker(std::string_view bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  template <typename T>
  T take() {
    T value;
    const std::string_view bytes = take_bytes(sizeof(T));
    std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
  std::string_view take_text() { return take_bytes(take<std::uint64_t>()); }
  bool is_empty() const noexcept { return bytes_.empty(); }

  [[noreturn]] void fail(const std::string& problem) const { throw FormatError(file_, "", problem); }

 private:
  std::string_view take_bytes(std::uint64_t count) {
    if (count > bytes_.size()) fail("the descriptions of a step end too early");
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }

  std::string_view bytes_;
  const std::string& file_;
};

}  // namespace msprobe::grad_probe::packed

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "grad_probe/direction_file.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "msprobe/file.h"
#include "msprobe/tensor_file.h"

namespace msprobe::grad_probe {
namespace {

constexpr std::string_view kSuffix = ".npy";
constexpr std::size_t kLongestFileName = 255;   // NAME_MAX of the common file systems
constexpr std::size_t kChunkBytes = 256 << 10;  // of the file; stays in the second-level cache
constexpr std::string_view kHexDigits = "0123456789ABCDEF";

// FNV-1a, 64 bits: http://www.isthe.com/chongo/tech/comp/fnv/
std::uint64_t hash(std::string_view text) noexcept {
  std::uint64_t value = 0xcbf29ce484222325;
  for (const char c : text) value = (value ^ static_cast<std::uint8_t>(c)) * 0x100000001b3;
  return value;
}

// The eight bytes each byte of packed bits stands for.
constexpr auto kExpanded = [] {
  std::array<std::array<std::uint8_t, 8>, 256> table{};
  for (std::size_t byte = 0; byte < table.size(); ++byte) {
    for (std::size_t bit = 0; bit < 8; ++bit) table[byte][bit] = byte >> bit & 1;
  }
  return table;
}();

// `out` has room for 8 bytes per byte of `bits`.
void expand(std::span<const std::uint8_t> bits, std::uint8_t* out) noexcept {
  for (const std::uint8_t byte : bits) {
    std::memcpy(out, kExpanded[byte].data(), 8);
    out += 8;
  }
}

}  // namespace

std::string direction_file_name(std::string_view name) {
  std::string result;
  for (const char c : name) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (c == '/' || c == '%' || byte < 0x20 || byte == 0x7F) {
      result += {'%', kHexDigits[byte >> 4], kHexDigits[byte & 15]};
    } else {
      result += c;
    }
  }
  if (result.size() + kSuffix.size() > kLongestFileName) {
    // "%~" cannot come from a name, so no other name has this file.
    std::string ending = "%~";
    const std::uint64_t value = hash(name);
    for (int shift = 60; shift >= 0; shift -= 4) ending += kHexDigits[value >> shift & 15];
    std::size_t length = kLongestFileName - kSuffix.size() - ending.size();
    while ((static_cast<std::uint8_t>(result[length]) & 0xC0) == 0x80)
      --length;  // not inside a UTF-8 sequence
    result.resize(length);
    result += ending;
  }
  return result.append(kSuffix);
}

void write_direction_file(const std::filesystem::path& path, const Measurement& measurement,
                          std::vector<std::uint8_t>& buffer) {
  const std::string header = io::npy_header(DType::kBool, measurement.fortran_order, measurement.shape);
  buffer.resize(header.size() + kChunkBytes);
  std::copy(header.begin(), header.end(), buffer.begin());
  std::size_t used =
      header.size();  // the header goes out with the first chunk: most parameters need one write

  io::OutputFile file(path);
  std::span<const std::uint8_t> bits(measurement.signs);
  auto remaining = static_cast<std::size_t>(measurement.summary.count);
  do {
    const auto part = bits.first(std::min(bits.size(), kChunkBytes / 8));
    const std::size_t elements = std::min(remaining, part.size() * 8);
    expand(part, buffer.data() + used);
    file.write(buffer.data(), used + elements);
    bits = bits.subspan(part.size());
    remaining -= elements;
    used = 0;
  } while (!bits.empty());
  file.close();
}

}  // namespace msprobe::grad_probe

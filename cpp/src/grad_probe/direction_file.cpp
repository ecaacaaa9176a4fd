// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "grad_probe/direction_file.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "io/file/file_name.h"
#include "msprobe/file.h"
#include "msprobe/tensor_file.h"

namespace msprobe::grad_probe {
namespace {

// The eight bytes each byte of packed bits stands for.
constexpr auto kExpanded = [] {
  std::array<std::array<std::uint8_t, 8>, 256> table{};
  for (std::size_t byte = 0; byte < table.size(); ++byte) {
    for (std::size_t bit = 0; bit < 8; ++bit) table[byte][bit] = byte >> bit & 1;
  }
  return table;
}();

}  // namespace

void expand(std::span<const std::uint8_t> bits, std::uint8_t* out) noexcept {
  for (const std::uint8_t byte : bits) {
    std::memcpy(out, kExpanded[byte].data(), 8);
    out += 8;
  }
}

std::string direction_file_name(std::string_view name) { return io::file_name_of(name, ".npy"); }

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

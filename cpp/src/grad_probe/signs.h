// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "grad_probe/direction_file.h"
#include "grad_probe/packed_file.h"
#include "msprobe/content_hash.h"

namespace msprobe::grad_probe {

/// The signs of a gradient cannot be compared: no booleans, another shape, not kept. The text is for
/// Similarity::problem.
class Incomparable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The signs of one gradient at one step, wherever they are. Thread-safe.
class Signs {
 public:
  Signs() = default;
  virtual ~Signs() = default;
  Signs(const Signs&) = delete;
  Signs& operator=(const Signs&) = delete;

  const std::vector<std::int64_t>& shape() const noexcept { return shape_; }
  /// Whether the elements are in column-major order.
  bool fortran_order() const noexcept { return fortran_order_; }
  std::int64_t count() const noexcept { return count_; }
  /// Of all bits, where it is known without reading them; else null.
  virtual const ContentHash* hash() const noexcept { return nullptr; }

  /// One byte for each of the elements from `first` on; 0: not positive. Throws IoError, FormatError.
  virtual void read(std::int64_t first, std::span<std::uint8_t> out) const = 0;

 protected:
  std::vector<std::int64_t> shape_;
  bool fortran_order_ = false;
  std::int64_t count_ = 0;
};

/// Reads elements [begin, end) chunk by chunk: `use(first_element, bytes)`.
template <typename Use>
void for_each_chunk(const Signs& signs, std::int64_t begin, std::int64_t end,
                    std::vector<std::uint8_t>& buffer, const Use& use) {
  buffer.resize(kChunkBytes);
  for (std::int64_t first = begin; first < end; first += kChunkBytes) {
    const std::span chunk(buffer.data(),
                          static_cast<std::size_t>(std::min<std::int64_t>(kChunkBytes, end - first)));
    signs.read(first, chunk);
    use(first, std::span<const std::uint8_t>(chunk));
  }
}

/// Of a direction file. Throws IoError, FormatError, Incomparable.
std::unique_ptr<Signs> signs_of_npy(const std::filesystem::path& path);

/// Of a packed record; both must live as long. `name` is that of the parameter. read() throws FormatError for
/// bits that are damaged, where it begins with the first.
std::unique_ptr<Signs> signs_of_packed(const PackedFile& file, const PackedSigns& signs,
                                       std::string_view name);

}  // namespace msprobe::grad_probe

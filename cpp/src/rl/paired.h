// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/file.h"
#include "msprobe/rl.h"
#include "msprobe/tensor_file.h"

namespace msprobe::rl {

/// The arrays of two records that were saved at the same places.
struct Paired {
  struct Pair {
    Place place;
    std::filesystem::path reference;
    std::filesystem::path target;
  };
  std::vector<Pair> pairs;  // in order of their places
  std::vector<Place> reference_only;
  std::vector<Place> target_only;
};

/// Both in order of their places.
Paired paired(std::vector<SavedArray> reference, std::vector<SavedArray> target);

/// The part that two shapes have in common; shapes of different length are taken as flat.
struct CommonPart {
  Shape shape;
  bool is_flat;   // both arrays are taken as flat
  bool is_whole;  // nothing of either is left out
};
CommonPart common_part(const Shape& reference, const Shape& target);

/// A .npy whose elements are read part by part, as those of a box at its beginning, in C order. Parts are
/// read into memory that stays in the cache of the core: to map a page takes the system longer than to copy
/// it.
class ArrayReader {
 public:
  /// Throws IoError, FormatError.
  explicit ArrayReader(const std::filesystem::path& path);

  const io::NpyHeader& header() const noexcept { return header_; }

  /// What read() goes through. Throws IoError.
  void choose(const CommonPart& part);

  /// Elements [first, first + count) of the part that was chosen, into `out`, which is aligned and has room
  /// for them. Thread-safe. Throws IoError, FormatError.
  void read(std::int64_t first, std::size_t count, std::byte* out) const;

 private:
  std::filesystem::path path_;
  std::unique_ptr<io::InputFile> file_;
  io::NpyHeader header_;
  std::optional<io::TensorFile> mapped_;  // where elements do not follow each other in the file
  TensorView view_;
  Shape shape_;
  Shape strides_;
};

}  // namespace msprobe::rl

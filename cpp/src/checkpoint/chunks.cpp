// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/chunks.h"

#include <cstring>
#include <limits>

#include "io/file/mapped_file.h"

namespace msprobe::checkpoint {
namespace {

// Columns of a chunk where neighbours lie far apart on one side: the cache lines of one row are still there
// when the next one needs them.
constexpr std::int64_t kScatteredColumns = 512;

// From the first to the last element in memory.
std::span<const std::uint8_t> memory_of(const Piece& piece, DType dtype) {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < piece.shape.size(); ++d) last += (piece.shape[d] - 1) * piece.strides[d];
  return {piece.data, (static_cast<std::size_t>(last) + 1) * element_size(dtype)};
}

}  // namespace

bool is_scattered(const Piece& piece) {
  return !piece.strides.empty() && piece.shape.back() > 1 && piece.strides.back() != 1;
}

bool is_dense(const Piece& piece, DType dtype) {
  const auto bytes = static_cast<std::size_t>(count_of(piece.shape)) * element_size(dtype);
  return memory_of(piece, dtype).size() <= 2 * bytes;
}

void read_ahead(const Piece& piece, DType dtype) {
  if (is_dense(piece, dtype)) io::read_ahead(memory_of(piece, dtype));
}

InMemory::InMemory(const Piece& piece, DType dtype) {
  if (!is_dense(piece, dtype)) return;
  part_ = memory_of(piece, dtype);
  io::read_ahead(part_);
}

InMemory::~InMemory() { io::give_back(part_); }

AlignedView::AlignedView(const Piece& piece, DType dtype) : piece_(piece), dtype_(dtype), data_(piece.data) {
  const std::size_t item = element_size(dtype);
  if (reinterpret_cast<std::uintptr_t>(piece.data) % item == 0 || !is_c_contiguous(view())) return;
  const auto bytes = static_cast<std::size_t>(count_of(piece.shape)) * item;
  copy_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
  std::memcpy(copy_.get(), piece.data, bytes);
  data_ = copy_.get();
}

std::int64_t columns_of(const Piece& reference, const Piece& target) {
  return is_scattered(reference) || is_scattered(target) ? kScatteredColumns
                                                         : std::numeric_limits<std::int64_t>::max();
}

Inner inner_of(const Both& both, const Shape& whole_shape) {
  const Shape& shape = both.reference.shape;
  Inner inner{shape.size()};
  while (inner.first > 0) {
    const std::size_t d = inner.first - 1;
    const auto has_no_gaps = [&](const Piece& piece) { return piece.strides[d] == inner.count; };
    if (shape[d] != 1 && !(has_no_gaps(both.reference) && has_no_gaps(both.target))) break;
    inner.first = d;
    inner.count *= shape[d];
    if (shape[d] != whole_shape[d]) break;
  }
  return inner;
}

}  // namespace msprobe::checkpoint

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How the elements of parameters are gone through: in parts that fit into the caches, with the files in
/// memory only as long as they are needed.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "checkpoint/pieces.h"
#include "msprobe/checkpoint.h"
#include "msprobe/tensor_view.h"

namespace msprobe::checkpoint {

/// Bytes of one side of a chunk, the part that a thread works on at a time.
inline constexpr std::int64_t kChunkBytes = 1 << 20;

/// Whether neighbours along the last dimension are no neighbours in memory.
bool is_scattered(const Piece& piece);

/// Whether at least half of the memory from the first to the last element is that of elements.
bool is_dense(const Piece& piece, DType dtype);

/// Reads the memory of a piece in one go. Nothing happens for one that is not dense.
void read_ahead(const Piece& piece, DType dtype);

/// The same while it is worked on: it is given back afterwards.
class InMemory {
 public:
  InMemory(const Piece& piece, DType dtype);
  ~InMemory();
  InMemory(const InMemory&) = delete;
  InMemory& operator=(const InMemory&) = delete;

 private:
  std::span<const std::uint8_t> part_;
};

/// A view of a piece whose elements are aligned or are copied one by one anyway.
class AlignedView {
 public:
  AlignedView(const Piece& piece, DType dtype);

  TensorView view() const noexcept { return {data_, dtype_, piece_.shape, piece_.strides}; }

 private:
  const Piece& piece_;
  DType dtype_;
  const void* data_;
  std::unique_ptr<std::byte[]> copy_;
};

/// Columns at which boxes of a pair are cut.
std::int64_t columns_of(const Piece& reference, const Piece& target);

/// Calls `visit(offset, shape)` for consecutive parts of a box, each of at most `most` elements and `columns`
/// columns.
template <typename Visit>
void split_box(const Shape& offset, const Shape& shape, std::int64_t most, std::int64_t columns,
               const Visit& visit) {
  const std::size_t rank = shape.size();
  if (rank == 0) return visit(offset, shape);
  Shape extent = shape;
  extent[rank - 1] = std::min(extent[rank - 1], columns);
  for (std::size_t d = 0; d < rank && count_of(extent) > most; ++d) {
    const std::int64_t rest = count_of(extent) / extent[d];
    extent[d] = std::clamp<std::int64_t>(most / rest, 1, extent[d]);
  }
  Shape at = offset;
  for (;;) {
    Shape part = extent;
    for (std::size_t d = 0; d < rank; ++d) part[d] = std::min(extent[d], offset[d] + shape[d] - at[d]);
    visit(at, part);
    std::size_t d = rank;
    while (d-- > 0) {
      at[d] += extent[d];
      if (at[d] < offset[d] + shape[d]) break;
      at[d] = offset[d];
    }
    if (d > rank) return;  // below 0: all of them came to their ends
  }
}

/// A box in both of its memories, which may be one and the same.
struct Both {
  const Piece& reference;
  const Piece& target;
  DType reference_dtype;
  DType target_dtype;
};

/// Dimensions from `first` on lie without gaps in the parameter and in both memories: `count` elements.
struct Inner {
  std::size_t first;
  std::int64_t count = 1;
};

Inner inner_of(const Both& both, const Shape& whole_shape);

/// Calls `visit(number of the first element in the parameter, elements, memory of the reference, of the
/// target)` for parts of a box without gaps.
template <typename Visit>
void for_runs(const Both& both, const Shape& whole_shape, const Visit& visit) {
  const Inner inner = inner_of(both, whole_shape);
  const Shape& shape = both.reference.shape;
  const auto at = [](const Piece& piece, DType dtype, const Shape& index) {
    std::int64_t element = 0;
    for (std::size_t d = 0; d < index.size(); ++d) element += index[d] * piece.strides[d];
    return piece.data + element * static_cast<std::int64_t>(element_size(dtype));
  };
  Shape index(inner.first, 0);
  for (std::int64_t reference = count_of(shape) / std::max<std::int64_t>(inner.count, 1); reference > 0;
       --reference) {
    std::int64_t element = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      element = element * whole_shape[d] + both.reference.offset[d] + (d < inner.first ? index[d] : 0);
    }
    visit(static_cast<std::uint64_t>(element), static_cast<std::size_t>(inner.count),
          at(both.reference, both.reference_dtype, index), at(both.target, both.target_dtype, index));
    for (std::size_t d = inner.first; d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

}  // namespace msprobe::checkpoint

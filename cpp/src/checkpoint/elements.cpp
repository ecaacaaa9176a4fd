// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "checkpoint/pieces.h"
#include "msprobe/checkpoint.h"

namespace msprobe::checkpoint {
namespace {

// Copies a piece to its place among the elements of the whole.
void place(const Piece& piece, const Shape& whole, std::size_t item, std::byte* out) {
  const std::size_t rank = whole.size();
  if (count_of(piece.shape) == 0) return;
  Shape steps(rank, 1);  // of the whole
  for (std::size_t d = rank; d-- > 1;) steps[d - 1] = steps[d] * whole[d];
  const std::int64_t run = rank == 0 ? 1 : piece.shape[rank - 1];
  const std::int64_t step = rank == 0 ? 1 : piece.strides[rank - 1];
  Shape index(rank, 0);
  for (;;) {
    std::int64_t from = 0;
    std::int64_t to = 0;
    for (std::size_t d = 0; d < rank; ++d) {
      from += index[d] * piece.strides[d];
      to += (piece.offset[d] + index[d]) * steps[d];
    }
    const std::uint8_t* source = piece.data + from * static_cast<std::int64_t>(item);
    std::byte* target = out + to * static_cast<std::int64_t>(item);
    if (step == 1) {
      std::memcpy(target, source, static_cast<std::size_t>(run) * item);
    } else {
      for (std::int64_t i = 0; i < run;
           ++i, target += item, source += step * static_cast<std::int64_t>(item)) {
        std::memcpy(target, source, item);
      }
    }
    std::size_t d = rank < 2 ? 0 : rank - 1;
    for (; d > 0; --d) {
      if (++index[d - 1] < piece.shape[d - 1]) break;
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

}  // namespace

Elements elements_of(const Parameter& parameter) {
  const std::size_t item = element_size(parameter.dtype);
  if (parameter.pieces.size() == 1) {
    const Piece& only = parameter.pieces.front();
    const TensorView view{only.data, parameter.dtype, only.shape, only.strides};
    const bool is_aligned = reinterpret_cast<std::uintptr_t>(only.data) % item == 0;
    if (is_aligned && is_c_contiguous(view)) return {only.data, nullptr};
  }
  const auto bytes = static_cast<std::size_t>(count_of(parameter.shape)) * item;
  Elements result;
  result.copy = std::make_unique_for_overwrite<std::byte[]>(bytes);
  for (const Piece& piece : parameter.pieces) place(piece, parameter.shape, item, result.copy.get());
  result.data = result.copy.get();
  return result;
}

}  // namespace msprobe::checkpoint

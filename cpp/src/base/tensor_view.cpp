// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/tensor_view.h"

#include <algorithm>
#include <string>

#include "msprobe/error.h"

namespace msprobe {
namespace {

// True when walking the dimensions from the innermost, given by `dimension(0)`, finds no gap.
template <typename Dimension>
bool is_dense(const TensorView& view, Dimension dimension) noexcept {
  if (std::find(view.shape.begin(), view.shape.end(), 0) != view.shape.end()) return true;
  std::int64_t expected = 1;
  for (std::size_t i = 0; i < view.shape.size(); ++i) {
    const std::size_t d = dimension(i);
    if (view.shape[d] != 1 && view.strides[d] != expected) return false;
    expected *= view.shape[d];
  }
  return true;
}

}  // namespace

std::int64_t element_count(const TensorView& view) {
  std::int64_t count = 1;
  bool overflow = false;
  bool empty = false;
  for (const std::int64_t extent : view.shape) {
    if (extent < 0) {
      throw InvalidArgument("tensor shape: an extent must be 0 or more, found " + std::to_string(extent));
    }
    empty |= extent == 0;
    overflow |= __builtin_mul_overflow(count, std::max<std::int64_t>(extent, 1), &count);
  }
  if (empty) return 0;
  if (overflow) throw InvalidArgument("tensor shape: the number of elements does not fit into 63 bits");
  return count;
}

bool is_c_contiguous(const TensorView& view) noexcept {
  const std::size_t rank = view.shape.size();
  return view.strides.empty() || is_dense(view, [rank](std::size_t i) { return rank - 1 - i; });
}

bool is_fortran_contiguous(const TensorView& view) noexcept {
  if (!view.strides.empty()) return is_dense(view, [](std::size_t i) { return i; });
  // C-contiguous: column-major as well when at most one extent is larger than 1.
  return std::find(view.shape.begin(), view.shape.end(), 0) != view.shape.end() ||
         std::count_if(view.shape.begin(), view.shape.end(), [](std::int64_t n) { return n != 1; }) <= 1;
}

}  // namespace msprobe

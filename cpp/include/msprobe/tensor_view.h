// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "msprobe/dtype.h"
#include "msprobe/export.h"

namespace msprobe {

/// Borrowed memory with a type and a shape. Owns nothing, not even `shape` and `strides`; never outlives the
/// call it was passed to.
struct TensorView {
  const void* data = nullptr;  // of element [0, 0, ...]; may be null when the tensor is empty
  DType dtype = DType::kFloat32;
  std::span<const std::int64_t> shape;    // empty for a 0-d tensor, which has one element
  std::span<const std::int64_t> strides;  // in elements, may be 0 or negative; empty means C-contiguous
};

/// Product of the shape; 1 for a 0-d tensor. Throws InvalidArgument for a negative extent or a product above
/// 2^63-1.
MSPROBE_API std::int64_t element_count(const TensorView& view);

/// Row-major without gaps. Extents of 1 do not matter; an empty tensor is contiguous.
MSPROBE_API bool is_c_contiguous(const TensorView& view) noexcept;

/// Column-major without gaps (the transpose is C-contiguous).
MSPROBE_API bool is_fortran_contiguous(const TensorView& view) noexcept;

}  // namespace msprobe

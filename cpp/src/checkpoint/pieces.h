// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Parameters made of others, by views alone: no element is read or copied.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "msprobe/checkpoint.h"
#include "msprobe/tensor_view.h"

namespace msprobe::checkpoint {

/// A parameter that lies in one place. `view` has strides or is C-contiguous.
Parameter whole(std::string name, const TensorView& view);

/// Elements of a shape whose product is known to fit.
std::int64_t count_of(const Shape& shape);

/// Rows [begin, end) along `dimension`.
Parameter slice(const Parameter& parameter, std::size_t dimension, std::int64_t begin, std::int64_t end);

/// What is at `index` of dimension 0, without that dimension.
Parameter select(const Parameter& parameter, std::int64_t index);

/// The two dimensions of a matrix exchanged. Throws InvalidArgument for another rank.
Parameter transposed(const Parameter& parameter);

/// Parts one after the other along `dimension`, under the name of the first. Throws InvalidArgument for
/// different dtypes or shapes that do not fit, and for no parts.
Parameter joined(std::span<const Parameter> parts, std::size_t dimension);

/// The same elements in C order with another shape. Throws InvalidArgument unless the parameter is one piece
/// without gaps and the numbers of elements agree.
Parameter reshaped(const Parameter& parameter, const Shape& shape);

/// Nothing when the pieces cover the parameter once; else what is wrong, for a message.
std::string tiling_problem(const Parameter& parameter);

/// The same box of two parameters of one shape, as both have it.
struct Overlap {
  Shape offset;
  Piece reference;
  Piece target;
};

/// Calls `visit` for boxes that together are the whole, each within one piece of both sides.
void for_overlaps(const Parameter& reference, const Parameter& target,
                  const std::function<void(const Overlap&)>& visit);

/// The part of a piece that lies in a box, given in the parameter; the caller knows that they overlap.
Piece cut(const Piece& piece, DType dtype, const Shape& offset, const Shape& shape);

}  // namespace msprobe::checkpoint

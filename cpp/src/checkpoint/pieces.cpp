// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/pieces.h"

#include <algorithm>
#include <numeric>

#include "base/shape_text.h"
#include "msprobe/error.h"

namespace msprobe::checkpoint {
namespace {

Shape c_strides(const Shape& shape) {
  Shape strides(shape.size());
  std::int64_t step = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = step;
    step *= std::max<std::int64_t>(shape[d], 1);
  }
  return strides;
}

// The box that two boxes have in common; false where there is none.
bool intersect(const Piece& a, const Piece& b, Shape& offset, Shape& shape) {
  for (std::size_t d = 0; d < a.shape.size(); ++d) {
    const std::int64_t begin = std::max(a.offset[d], b.offset[d]);
    const std::int64_t end = std::min(a.offset[d] + a.shape[d], b.offset[d] + b.shape[d]);
    if (begin >= end) return false;
    offset[d] = begin;
    shape[d] = end - begin;
  }
  return true;
}

std::vector<const Piece*> by_first_row(const std::vector<Piece>& pieces) {
  std::vector<const Piece*> order;
  order.reserve(pieces.size());
  for (const Piece& piece : pieces) order.push_back(&piece);
  std::stable_sort(order.begin(), order.end(),
                   [](const Piece* a, const Piece* b) { return a->offset < b->offset; });
  return order;
}

std::int64_t begin_of(const Piece& piece) { return piece.offset.empty() ? 0 : piece.offset[0]; }
std::int64_t end_of(const Piece& piece) {
  return piece.offset.empty() ? 1 : piece.offset[0] + piece.shape[0];
}

// Calls `visit(reference, target)` for all pairs whose rows overlap, until it returns false; both sides in
// the order of their first rows.
template <typename Visit>
void for_pairs(const std::vector<const Piece*>& reference, const std::vector<const Piece*>& target,
               const Visit& visit) {
  std::vector<const Piece*> open;  // of the target
  std::size_t next = 0;
  for (const Piece* piece : reference) {
    for (; next < target.size() && begin_of(*target[next]) < end_of(*piece); ++next)
      open.push_back(target[next]);
    std::erase_if(open, [&](const Piece* other) { return end_of(*other) <= begin_of(*piece); });
    for (const Piece* other : open) {
      if (!visit(*piece, *other)) return;
    }
  }
}

}  // namespace

std::int64_t count_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

Parameter whole(std::string name, const TensorView& view) {
  Parameter result{std::move(name), view.dtype, Shape(view.shape.begin(), view.shape.end()), {}};
  if (count_of(result.shape) == 0) return result;
  Shape strides = view.strides.empty() && !view.shape.empty()
                      ? c_strides(result.shape)
                      : Shape(view.strides.begin(), view.strides.end());
  result.pieces.push_back({Shape(result.shape.size(), 0), result.shape, std::move(strides),
                           static_cast<const std::uint8_t*>(view.data)});
  return result;
}

Piece cut(const Piece& piece, DType dtype, const Shape& offset, const Shape& shape) {
  Piece result{offset, shape, piece.strides, piece.data};
  std::int64_t elements = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) elements += (offset[d] - piece.offset[d]) * piece.strides[d];
  result.data += elements * static_cast<std::int64_t>(element_size(dtype));
  return result;
}

Parameter slice(const Parameter& parameter, std::size_t dimension, std::int64_t begin, std::int64_t end) {
  if (dimension >= parameter.shape.size() || begin < 0 || begin > end || end > parameter.shape[dimension]) {
    throw InvalidArgument(parameter.name + ": shape " + shape_text(parameter.shape) + " has no rows " +
                          std::to_string(begin) + " to " + std::to_string(end) + " along dimension " +
                          std::to_string(dimension));
  }
  Parameter result{parameter.name, parameter.dtype, parameter.shape, {}};
  result.shape[dimension] = end - begin;
  for (const Piece& piece : parameter.pieces) {
    Shape offset = piece.offset;
    Shape shape = piece.shape;
    const std::int64_t last = std::min(offset[dimension] + shape[dimension], end);
    offset[dimension] = std::max(offset[dimension], begin);
    shape[dimension] = last - offset[dimension];
    if (shape[dimension] <= 0) continue;
    Piece& part = result.pieces.emplace_back(cut(piece, parameter.dtype, offset, shape));
    part.offset[dimension] -= begin;
  }
  return result;
}

Parameter select(const Parameter& parameter, std::int64_t index) {
  Parameter result = slice(parameter, 0, index, index + 1);
  result.shape.erase(result.shape.begin());
  for (Piece& piece : result.pieces) {
    piece.offset.erase(piece.offset.begin());
    piece.shape.erase(piece.shape.begin());
    piece.strides.erase(piece.strides.begin());
  }
  return result;
}

Parameter transposed(const Parameter& parameter) {
  if (parameter.shape.size() != 2) {
    throw InvalidArgument(parameter.name + ": expected a matrix to transpose, found shape " +
                          shape_text(parameter.shape));
  }
  Parameter result = parameter;
  std::swap(result.shape[0], result.shape[1]);
  for (Piece& piece : result.pieces) {
    std::swap(piece.offset[0], piece.offset[1]);
    std::swap(piece.shape[0], piece.shape[1]);
    std::swap(piece.strides[0], piece.strides[1]);
  }
  return result;
}

Parameter joined(std::span<const Parameter> parts, std::size_t dimension) {
  if (parts.empty()) throw InvalidArgument("there is nothing to put together");
  Parameter result{parts[0].name, parts[0].dtype, parts[0].shape, {}};
  if (dimension >= result.shape.size()) {
    throw InvalidArgument(result.name + ": shape " + shape_text(result.shape) + " has no dimension " +
                          std::to_string(dimension) + " along which parts are put together");
  }
  result.shape[dimension] = 0;
  for (const Parameter& part : parts) {
    Shape expected = result.shape;
    if (part.shape.size() == expected.size()) expected[dimension] = part.shape[dimension];
    if (part.shape != expected || part.dtype != result.dtype) {
      throw InvalidArgument(result.name + ": a part is " + std::string(dtype_name(part.dtype)) + " " +
                            shape_text(part.shape) + ", which does not go with " +
                            std::string(dtype_name(result.dtype)) + " " + shape_text(parts[0].shape) +
                            " along dimension " + std::to_string(dimension));
    }
    for (Piece piece : part.pieces) {
      piece.offset[dimension] += result.shape[dimension];
      result.pieces.push_back(std::move(piece));
    }
    if (__builtin_add_overflow(result.shape[dimension], part.shape[dimension], &result.shape[dimension])) {
      throw InvalidArgument(result.name + ": the parts together are too large for any memory");
    }
  }
  return result;
}

Parameter reshaped(const Parameter& parameter, const Shape& shape) {
  if (count_of(shape) != count_of(parameter.shape) || parameter.pieces.size() > 1 ||
      (!parameter.pieces.empty() && !is_c_contiguous({nullptr, parameter.dtype, parameter.pieces[0].shape,
                                                      parameter.pieces[0].strides}))) {
    throw InvalidArgument(parameter.name + ": shape " + shape_text(parameter.shape) + " cannot be seen as " +
                          shape_text(shape));
  }
  if (parameter.pieces.empty()) return {parameter.name, parameter.dtype, shape, {}};
  return whole(parameter.name, {parameter.pieces[0].data, parameter.dtype, shape, {}});
}

std::string tiling_problem(const Parameter& parameter) {
  std::int64_t covered = 0;
  for (const Piece& piece : parameter.pieces) {
    for (std::size_t d = 0; d < parameter.shape.size(); ++d) {
      if (piece.offset[d] < 0 || piece.shape[d] < 1 ||
          piece.offset[d] > parameter.shape[d] - piece.shape[d]) {
        return "a part of shape " + shape_text(piece.shape) + " at " + shape_text(piece.offset) +
               " lies outside of the shape " + shape_text(parameter.shape);
      }
    }
    if (__builtin_add_overflow(covered, count_of(piece.shape), &covered)) return "the parts are too large";
  }
  // Pieces that begin in the same rows are all looked at in pairs, which a file could make take hours.
  constexpr std::int64_t kMostPairs = 200'000'000;
  std::int64_t pairs = 0;
  std::string problem;
  const std::vector<const Piece*> order = by_first_row(parameter.pieces);
  Shape offset(parameter.shape.size());
  Shape shape(parameter.shape.size());
  for_pairs(order, order, [&](const Piece& a, const Piece& b) {
    if (++pairs > kMostPairs) {
      problem = "it has too many parts side by side";
    } else if (&a != &b && intersect(a, b, offset, shape)) {
      problem = "two parts hold the elements at " + shape_text(offset);
    }
    return problem.empty();
  });
  if (problem.empty() && covered != count_of(parameter.shape)) {
    problem = "its parts hold " + std::to_string(covered) + " of " +
              std::to_string(count_of(parameter.shape)) + " elements";
  }
  return problem;
}

void for_overlaps(const Parameter& reference, const Parameter& target,
                  const std::function<void(const Overlap&)>& visit) {
  Shape offset(reference.shape.size());
  Shape shape(reference.shape.size());
  for_pairs(by_first_row(reference.pieces), by_first_row(target.pieces), [&](const Piece& a, const Piece& b) {
    if (intersect(a, b, offset, shape)) {
      visit({offset, cut(a, reference.dtype, offset, shape), cut(b, target.dtype, offset, shape)});
    }
    return true;
  });
}

}  // namespace msprobe::checkpoint

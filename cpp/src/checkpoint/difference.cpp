// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/difference.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/float_environment.h"
#include "msprobe/metrics.h"

namespace msprobe::checkpoint {
namespace {

DType dtype_of(Element element) {
  switch (element) {
    case Element::kFloat32: return DType::kFloat32;
    case Element::kBFloat16: return DType::kBFloat16;
    case Element::kFloat16: break;
  }
  return DType::kFloat16;
}

// At most kBlock pairs of which the fast way knows nothing, in double.
Difference in_double(Element element, const std::byte* reference, const std::byte* target,
                     std::size_t count) {
  const DType dtype = dtype_of(element);
  alignas(64) std::array<std::byte, kBlock * sizeof(float)> n;
  alignas(64) std::array<std::byte, kBlock * sizeof(float)> b;
  std::memcpy(n.data(), reference, count * element_size(dtype));
  std::memcpy(b.data(), target, count * element_size(dtype));
  const std::array<std::int64_t, 1> shape{static_cast<std::int64_t>(count)};
  return difference_of({n.data(), dtype, shape, {}}, {b.data(), dtype, shape, {}});
}

void add_block(Difference& whole, const BlockDifference& block, std::size_t count) {
  const auto pairs = static_cast<std::int64_t>(count);
  whole.count += pairs;
  whole.finite_pairs += pairs;
  whole.equal_bits += static_cast<std::int64_t>(block.equal_bits);
  whole.reference.sum += block.reference_sum;
  whole.reference.squares += block.reference_squares;
  whole.target.sum += block.target_sum;
  whole.target.squares += block.target_squares;
  whole.dot += block.dot;
  whole.squared_distance += block.squared_distance;
  whole.max_absolute = std::max(whole.max_absolute, static_cast<double>(block.max_absolute));
  whole.max_relative = std::max(whole.max_relative, static_cast<double>(block.max_relative));
}

void append(Side& whole, const Side& part) {
  whole.nan_count += part.nan_count;
  whole.inf_count += part.inf_count;
  whole.sum += part.sum;
  whole.squares += part.squares;
}

Side side_of(const metrics::Side& side) { return {side.nan_count, side.inf_count, side.sum, side.squares}; }

}  // namespace

std::optional<Element> fast_way(DType reference, DType target) {
  if (reference != target) return std::nullopt;
  switch (reference) {
    case DType::kFloat32: return Element::kFloat32;
    case DType::kBFloat16: return Element::kBFloat16;
    case DType::kFloat16: return Element::kFloat16;
    default: return std::nullopt;
  }
}

void add_pairs(Difference& whole, Element element, const void* reference, const void* target,
               std::size_t count) {
  const FloatEnvironment standard;
  const AddBlock kernel = kernels().add_block[static_cast<std::size_t>(element)];
  const std::size_t item = element_size(dtype_of(element));
  const auto* n = static_cast<const std::byte*>(reference);
  const auto* b = static_cast<const std::byte*>(target);
  while (count > 0) {
    const std::size_t some = count < kLanes ? count : std::min(count / kLanes * kLanes, kBlock);
    BlockDifference block;
    block.max_relative = static_cast<float>(whole.max_relative);
    if (some >= kLanes && kernel(n, b, some, &block)) {
      add_block(whole, block, some);
    } else {
      append(whole, in_double(element, n, b, some));
    }
    n += some * item;
    b += some * item;
    count -= some;
  }
}

Difference difference_of(const TensorView& reference, const TensorView& target) {
  const metrics::PairMetrics found = metrics::compare(reference, target, {.positions = false});
  return {.count = found.count,
          .finite_pairs = found.finite_pairs,
          .both_non_finite = found.both_non_finite,
          .one_sided = found.one_sided,
          .equal_bits = found.equal_bits,
          .reference = side_of(found.target),  // what is measured there, against the second
          .target = side_of(found.reference),
          .dot = found.dot,
          .squared_distance = found.squared_distance,
          .max_absolute = found.max_absolute,
          .max_relative = found.max_relative};
}

void append(Difference& whole, const Difference& part) {
  const FloatEnvironment standard;
  whole.count += part.count;
  whole.finite_pairs += part.finite_pairs;
  whole.both_non_finite += part.both_non_finite;
  whole.one_sided += part.one_sided;
  whole.equal_bits += part.equal_bits;
  append(whole.reference, part.reference);
  append(whole.target, part.target);
  whole.dot += part.dot;
  whole.squared_distance += part.squared_distance;
  whole.max_absolute = std::max(whole.max_absolute, part.max_absolute);
  whole.max_relative = std::max(whole.max_relative, part.max_relative);
}

}  // namespace msprobe::checkpoint

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "device/items.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <string>

#include "base/layout.h"
#include "device/pinned_pool.h"
#include "msprobe/error.h"

namespace msprobe::device {
namespace {

static_assert(static_cast<Word>(DType::kComplex128) == kComplex128);
static_assert(static_cast<Word>(DType::kFloat8E4M3FN) == kFloat8E4M3FN);
static_assert(static_cast<Word>(DType::kInt64) == kInt64 && static_cast<Word>(DType::kBool) == kBool);

constexpr std::int64_t kMostExtent = (std::int64_t{1} << 31) - 1;

struct Extent {
  std::int64_t size;
  std::int64_t stride;        // in elements
  std::int64_t other_stride;  // of the second tensor
};

std::int64_t stride_of(const TensorView& view, std::size_t dimension) {
  if (!view.strides.empty()) return view.strides[dimension];
  std::int64_t stride = 1;
  for (std::size_t d = view.shape.size(); d-- > dimension + 1;) stride *= view.shape[d];
  return stride;
}

// The dimensions without those of one index; neighbours that follow each other in memory are one.
std::vector<Extent> merged(const TensorView& view, const TensorView* other) {
  std::vector<Extent> extents;
  for (std::size_t d = 0; d < view.shape.size(); ++d) {
    if (view.shape[d] == 1) continue;
    const Extent next{view.shape[d], stride_of(view, d), other != nullptr ? stride_of(*other, d) : 0};
    if (!extents.empty() && extents.back().stride == next.stride * next.size &&
        extents.back().other_stride == next.other_stride * next.size) {
      extents.back() = {extents.back().size * next.size, next.stride, next.other_stride};
    } else {
      extents.push_back(next);
    }
  }
  return extents;
}

bool has_gaps(const std::vector<Extent>& extents, bool has_other) {
  if (extents.empty()) return false;
  return extents.size() > 1 || extents[0].stride != 1 || (has_other && extents[0].other_stride != 1);
}

bool fits(const std::vector<Extent>& extents) {
  return extents.size() <= kDims && std::all_of(extents.begin(), extents.end(), [](const Extent& extent) {
           return extent.size <= kMostExtent;
         });
}

Dimension dimension_of(std::int64_t size, std::int64_t stride_in_bytes) {
  const auto extent = static_cast<Word>(size);
  const auto shift = static_cast<Word>(std::bit_width(extent - 1));
  // n * multiplier / 2^(31 + shift) is n / extent, rounded down, for n below 2^31 (T. Granlund, P.
  // Montgomery: Division by invariant integers using multiplication, PLDI 1994).
  const Long multiplier = ((Long{1} << (31 + shift)) + extent - 1) / extent;
  return {stride_in_bytes, extent, static_cast<Word>(multiplier), shift};
}

bool has_chunks(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
}

// Whether chunks lie as a whole at multiples of their size, in a layout whose units are chunks then.
bool is_by_chunk(const TensorView& view, std::vector<Extent>& extents, bool gaps) {
  const auto size = static_cast<std::int64_t>(element_size(view.dtype));
  const std::int64_t parts = kChunk / size;
  if (!has_chunks(view.dtype) || reinterpret_cast<std::uintptr_t>(view.data) % kChunk != 0) return false;
  if (!gaps) return true;
  if (extents.back().stride != 1 || extents.back().size % parts != 0) return false;
  const auto is_aligned = [&](const Extent& extent) { return extent.stride * size % kChunk == 0; };
  if (!std::all_of(extents.begin(), extents.end() - 1, is_aligned)) return false;
  if (element_count(view) / parts > kMostExtent) return false;
  extents.back() = {extents.back().size / parts, parts, 0};
  return true;
}

// So many blocks as have something to do, and with a sketch a multiple of its lanes: see measure_chunks().
Word blocks_for(Long count, Word elements, bool sketched, Word most) {
  const Long rounds = (count + elements - 1) / elements;
  if (rounds <= most) return static_cast<Word>(rounds);
  return sketched ? most - most % position::kLanes : most;
}

void check(const Request& request) {
  const bool pairs = (request.wanted & kPairs) != 0;
  if (pairs != (request.other != nullptr) ||
      (pairs && !std::equal(request.view.shape.begin(), request.view.shape.end(),
                            request.other->shape.begin(), request.other->shape.end()))) {
    throw InvalidArgument("measure: expected two tensors of the same shape");
  }
  if (request.bounds.size() > kBounds) {
    throw InvalidArgument("measure: expected at most " + std::to_string(kBounds) + " bounds, found " +
                          std::to_string(request.bounds.size()));
  }
}

}  // namespace

bool takes(const TensorView& view, const TensorView* other) {
  const std::vector<Extent> extents = merged(view, other);
  return !has_gaps(extents, other != nullptr) || fits(extents);
}

Item item_of(const Request& request, Word most_blocks) {
  check(request);
  std::vector<Extent> extents = merged(request.view, request.other);
  const bool gaps = has_gaps(extents, request.other != nullptr);
  if (gaps && !fits(extents)) throw UnsupportedError("measure: a layout of too many dimensions");
  Item item{};
  item.data = static_cast<const unsigned char*>(request.view.data);
  item.dtype = static_cast<unsigned char>(request.view.dtype);
  item.count = static_cast<Long>(element_count(request.view));
  item.small = request.small;
  item.wanted = static_cast<unsigned char>(request.wanted);
  item.bound_count = static_cast<unsigned char>(request.bounds.size());
  std::copy(request.bounds.begin(), request.bounds.end(), item.bounds);
  if (request.other != nullptr) {
    item.other = static_cast<const unsigned char*>(request.other->data);
    item.other_dtype = static_cast<unsigned char>(request.other->dtype);
  }
  const bool signs = (request.wanted & kSigns) != 0;
  if (signs) {
    item.bits = request.signs.to;
    item.first = request.signs.first;
    item.count = request.signs.count;
  }
  const bool by_chunk = request.other == nullptr && !signs && is_by_chunk(request.view, extents, gaps);
  item.by_chunk = by_chunk ? 1 : 0;
  item.rank = gaps ? static_cast<Word>(extents.size()) : 0;
  const auto size = static_cast<std::int64_t>(element_size(request.view.dtype));
  for (std::size_t d = 0; d < item.rank; ++d) {
    item.dimensions[d] = dimension_of(extents[d].size, extents[d].stride * size);
    if (request.other == nullptr) continue;
    const auto other_size = static_cast<std::int64_t>(element_size(request.other->dtype));
    item.other_dimensions[d] = dimension_of(extents[d].size, extents[d].other_stride * other_size);
  }
  const Word elements = signs                      ? kThreads * kWordBits
                        : by_chunk                 ? kThreads * kChunk / static_cast<Word>(size)
                        : request.other != nullptr ? kThreads * kAhead
                                                   : position::kGroup / parts_of(item.dtype);
  item.blocks = blocks_for(item.count, elements, (request.wanted & kSketches) != 0, most_blocks);
  return item;
}

std::shared_ptr<void> set_items(Table& table, std::span<const Item> items, Device& device, PinnedPool& pool,
                                std::size_t bytes) {
  table.count = static_cast<Word>(items.size());
  if (items.size() <= kNear) {
    std::copy(items.begin(), items.end(), table.near);
    return nullptr;
  }
  std::shared_ptr<void> far = pool.take(device, bytes).first;
  std::memcpy(far.get(), items.data(), items.size_bytes());
  table.far = static_cast<const Item*>(far.get());
  return far;
}

}  // namespace msprobe::device

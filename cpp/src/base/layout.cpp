// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "base/layout.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "msprobe/error.h"

namespace msprobe {
namespace {

// True when some order of the dimensions makes the memory gapless.
bool is_gapless(const TensorView& view) {
  std::array<std::size_t, Layout::kMaxRank> order;
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(view.shape.size());
  std::iota(order.begin(), end, std::size_t{0});
  std::sort(order.begin(), end,
            [&](std::size_t a, std::size_t b) { return view.strides[a] < view.strides[b]; });
  std::int64_t expected = 1;
  return std::all_of(order.begin(), end, [&](std::size_t d) {
    if (view.shape[d] == 1) return true;
    if (view.strides[d] != expected) return false;
    expected *= view.shape[d];
    return true;
  });
}

template <std::size_t size>
void copy_strided(const std::byte* from, std::int64_t step_bytes, std::size_t count, std::byte* to) {
  for (std::size_t i = 0; i < count; ++i, from += step_bytes, to += size) std::memcpy(to, from, size);
}

void copy_strided(const std::byte* from, std::int64_t step_bytes, std::size_t count, std::size_t item,
                  std::byte* to) {
  if (std::cmp_equal(step_bytes, item)) {
    std::memcpy(to, from, count * item);
    return;
  }
  switch (item) {
    case 1: return copy_strided<1>(from, step_bytes, count, to);
    case 2: return copy_strided<2>(from, step_bytes, count, to);
    case 4: return copy_strided<4>(from, step_bytes, count, to);
    case 8: return copy_strided<8>(from, step_bytes, count, to);
    default: return copy_strided<16>(from, step_bytes, count, to);
  }
}

}  // namespace

Layout::Layout(const TensorView& view, bool any_order)
    : data_(static_cast<const std::byte*>(view.data)),
      item_(element_size(view.dtype)),
      count_(element_count(view)),
      contiguous_(true),
      rank_(view.shape.size()),
      shape_(view.shape.data()),
      strides_(view.strides.data()) {
  if (!view.strides.empty() && view.strides.size() != view.shape.size()) {
    throw InvalidArgument("tensor view: expected as many strides as dimensions (" +
                          std::to_string(view.shape.size()) + "), found " +
                          std::to_string(view.strides.size()));
  }
  if (rank_ > kMaxRank) {
    throw InvalidArgument("tensor view: at most 64 dimensions are possible, found " + std::to_string(rank_));
  }
  contiguous_ = is_c_contiguous(view) || (any_order && is_gapless(view));
}

void Layout::gather(std::int64_t first, std::size_t count, std::byte* out) const {
  // Coordinates of element `first`, and its place in memory.
  std::array<std::int64_t, kMaxRank> index;
  std::int64_t rest = first;
  std::int64_t offset = 0;
  for (std::size_t d = rank_; d-- > 0;) {
    index[d] = rest % shape_[d];
    rest /= shape_[d];
    offset += index[d] * strides_[d];
  }
  const std::size_t inner = rank_ - 1;  // a 0-d tensor is contiguous and never comes here
  const auto item = static_cast<std::int64_t>(item_);
  while (count > 0) {
    const std::size_t run = std::min(count, static_cast<std::size_t>(shape_[inner] - index[inner]));
    copy_strided(data_ + offset * item, strides_[inner] * item, run, item_, out);
    out += run * item_;
    count -= run;
    if (count == 0) return;
    offset -= index[inner] * strides_[inner];
    index[inner] = 0;
    for (std::size_t d = inner; d-- > 0;) {  // carry
      offset += strides_[d];
      if (++index[d] < shape_[d]) break;
      offset -= shape_[d] * strides_[d];
      index[d] = 0;
    }
  }
}

}  // namespace msprobe

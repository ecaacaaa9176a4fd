// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "msprobe/tensor_view.h"

namespace msprobe {

/// Elements of a segment, the unit of work of a thread. Fixed, so that results do not depend on the number of
/// threads.
inline constexpr std::int64_t kSegment = 65536;

/// The elements of a tensor as a sequence, readable in pieces from any position.
class Layout {
 public:
  static constexpr std::size_t kMaxRank = 64;  // of torch and NumPy 2; NumPy 1 has 32

  /// `any_order`: the caller does not care for the order of elements, so gapless memory is read front to back
  /// whatever the order of the dimensions. Throws InvalidArgument for a bad shape, strides of another length
  /// or more than 64 dimensions.
  Layout(const TensorView& view, bool any_order);

  std::int64_t count() const noexcept { return count_; }
  bool contiguous() const noexcept { return contiguous_; }

  /// Element `first` of a contiguous layout.
  const std::byte* at(std::int64_t first) const noexcept {
    return data_ + first * static_cast<std::int64_t>(item_);
  }

  /// Copies elements [first, first + count) of a layout that is not contiguous to `out`, without gaps.
  void gather(std::int64_t first, std::size_t count, std::byte* out) const;

 private:
  const std::byte* data_;
  std::size_t item_;
  std::int64_t count_;
  bool contiguous_;
  std::size_t rank_;
  const std::int64_t* shape_;
  const std::int64_t* strides_;
};

}  // namespace msprobe

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "grad_probe/sign_agreement.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/shape_text.h"
#include "grad_probe/direction_file.h"

namespace msprobe::grad_probe {
namespace {

// Bits of the second side kept at a time when its elements lie in another order.
constexpr std::int64_t kWindowElements = std::int64_t{1} << 28;

// A vector of bytes, as GCC and Clang have it on every processor; 16 is what all have (wider ones are taken
// apart byte by byte where the processor does not know them). Plain loops were tried: GCC 12 makes good
// vector code of them at one optimisation level and poor code at the other.
constexpr std::size_t kLanes = 16;
using Bytes __attribute__((vector_size(kLanes))) = std::uint8_t;

std::int64_t equal_bytes(const std::uint8_t* a, const std::uint8_t* b, std::size_t count) noexcept {
  constexpr std::size_t kRows = 255;  // more would overflow the sums, which are bytes
  std::int64_t different = 0;
  std::size_t i = 0;
  while (count - i >= kLanes) {
    Bytes sums{};
    const std::size_t rows = std::min(kRows, (count - i) / kLanes);
    for (std::size_t row = 0; row < rows; ++row, i += kLanes) {
      Bytes x;
      Bytes y;
      std::memcpy(&x, a + i, kLanes);
      std::memcpy(&y, b + i, kLanes);
      sums -= static_cast<Bytes>((x != 0) ^ (y != 0));  // a comparison gives 255 where it is true: -1
    }
    for (std::size_t lane = 0; lane < kLanes; ++lane) different += sums[lane];
  }
  for (; i < count; ++i) different += (a[i] != 0) != (b[i] != 0);
  return static_cast<std::int64_t>(count) - different;
}

// Walks the elements of one side in its order and knows where each lies in the other order.
class OtherOrder {
 public:
  // `row_major`: the order walked. The position is that in the opposite order.
  OtherOrder(std::vector<std::int64_t> shape, bool row_major) : extents_(std::move(shape)) {
    // Column-major order of a shape is row-major order of the shape turned round.
    if (!row_major) std::reverse(extents_.begin(), extents_.end());
    index_.assign(extents_.size(), 0);
    strides_.resize(extents_.size());
    std::int64_t stride = 1;
    for (std::size_t d = 0; d < extents_.size(); ++d) {
      strides_[d] = stride;
      stride *= extents_[d];
    }
  }

  std::int64_t position() const noexcept { return position_; }

  void next() noexcept {
    for (std::size_t d = extents_.size(); d-- > 0;) {
      position_ += strides_[d];
      if (++index_[d] < extents_[d]) return;
      position_ -= strides_[d] * extents_[d];
      index_[d] = 0;
    }
  }

 private:
  std::vector<std::int64_t> extents_;
  std::vector<std::int64_t> index_;
  std::vector<std::int64_t> strides_;
  std::int64_t position_ = 0;
};

}  // namespace

DirectionPair::DirectionPair(std::unique_ptr<Signs> first, std::unique_ptr<Signs> second)
    : first_(std::move(first)), second_(std::move(second)) {
  if (first_->shape() != second_->shape()) {
    throw Incomparable("tensor shape is not equal: " + shape_text(first_->shape()) + ", " +
                       shape_text(second_->shape()));
  }
}

std::optional<SignHashes> DirectionPair::hashes() const noexcept {
  const ContentHash* const hash1 = first_->hash();
  const ContentHash* const hash2 = second_->hash();
  if (hash1 == nullptr || hash2 == nullptr || !same_order()) return std::nullopt;
  return SignHashes{*hash1, *hash2, count()};
}

bool DirectionPair::same_order() const noexcept {
  const std::vector<std::int64_t>& shape = first_->shape();
  return first_->fortran_order() == second_->fortran_order() ||
         std::count_if(shape.begin(), shape.end(), [](std::int64_t n) { return n != 1; }) <= 1;
}

std::int64_t DirectionPair::count_equal(SignBuffers& buffers, const Pause& pause) const {
  return same_order() ? count_equal(0, count(), buffers, pause) : count_equal_other_order(buffers, pause);
}

std::int64_t DirectionPair::count_equal(std::int64_t begin, std::int64_t end, SignBuffers& buffers,
                                        const Pause& pause) const {
  buffers.second.resize(kChunkBytes);
  std::int64_t equal = 0;
  for_each_chunk(*first_, begin, end, buffers.first, [&](std::int64_t first, auto chunk1) {
    const auto chunk2 = std::span(buffers.second).first(chunk1.size());
    second_->read(first, chunk2);
    equal += equal_bytes(chunk1.data(), chunk2.data(), chunk1.size());
    pause();
  });
  return equal;
}

// The second side is taken in windows of packed bits; the first is walked once per window.
std::int64_t DirectionPair::count_equal_other_order(SignBuffers& buffers, const Pause& pause) const {
  std::int64_t equal = 0;
  for (std::int64_t from = 0; from < count(); from += kWindowElements) {
    const std::int64_t to = std::min(count(), from + kWindowElements);
    std::vector<bool> window(static_cast<std::size_t>(to - from));
    for_each_chunk(*second_, from, to, buffers.second, [&](std::int64_t first, auto chunk) {
      for (std::size_t i = 0; i < chunk.size(); ++i)
        window[static_cast<std::size_t>(first - from) + i] = chunk[i] != 0;
      pause();
    });
    OtherOrder other(first_->shape(), !first_->fortran_order());
    for_each_chunk(*first_, 0, count(), buffers.first, [&](std::int64_t, auto chunk) {
      for (const std::uint8_t byte : chunk) {
        const std::int64_t position = other.position();
        if (position >= from && position < to) {
          equal += window[static_cast<std::size_t>(position - from)] == (byte != 0);
        }
        other.next();
      }
      pause();
    });
  }
  return equal;
}

}  // namespace msprobe::grad_probe

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// Digest and sketch of a tensor, a block at a time (base/position.h).
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "base/convert.h"
#include "base/layout.h"
#include "base/position.h"
#include "stats/block_statistics.h"
#include "stats/kernels.h"

namespace msprobe::stats {
namespace {

constexpr std::size_t kRun = position::kRun;

// How the sums see the parts of a dtype.
enum class Seen : std::uint8_t { kFloat32, kFloat16, kBFloat16, kFloat64 };

Seen seen_as(DType dtype) {
  if (dtype == DType::kFloat16) return Seen::kFloat16;
  if (dtype == DType::kBFloat16) return Seen::kBFloat16;
  return fits_float(dtype) ? Seen::kFloat32 : Seen::kFloat64;
}

std::size_t size_of(Seen seen) {
  return seen == Seen::kFloat64 ? sizeof(double) : seen == Seen::kFloat32 ? sizeof(float) : 2;
}

// Consecutive parts of one group.
struct Piece {
  const std::byte* bits;    // as they are in memory
  const std::byte* values;  // as the sums see them
  std::size_t count;
  std::size_t place;
};

using Sums = std::array<double, Sketch::kSums>;

bool is_finite(const Sums& sums) {
  double total = 0;
  for (const double sum : sums) total += std::abs(sum);
  return total <= std::numeric_limits<double>::max();
}

class Sketcher {
 public:
  // `lanes` get the basic statistics of whole runs, of dtypes with a fast kernel.
  Sketcher(Block& block, Partial& partial, Lanes<float>& lanes)
      : block_(block),
        partial_(partial),
        lanes_(lanes),
        seen_(seen_as(block.dtype())),
        parts_(is_complex(block.dtype()) ? 2 : 1),
        size_(element_size(block.dtype()) / parts_) {
    switch (seen_) {
      case Seen::kFloat32: values_ = reinterpret_cast<const std::byte*>(block.floats()); break;
      case Seen::kFloat64: values_ = reinterpret_cast<const std::byte*>(block.doubles()); break;
      default: values_ = static_cast<const std::byte*>(block.data());
    }
  }

  // `count` elements of the block from `from` on, the first of which is element `first` of the whole.
  void add(std::size_t from, std::size_t count, std::int64_t first) {
    auto part = static_cast<std::uint64_t>(first) * parts_;
    std::size_t at = from * parts_;
    for (std::size_t left = count * parts_; left > 0;) {
      const std::size_t place = part % position::kGroup;
      // Whole runs, of one group or more, and what is less than a run at both ends.
      const bool is_whole = place % kRun == 0 && left >= kRun;
      const std::size_t n = is_whole ? std::min(left - left % kRun, parts_at_once() - place)
                                     : std::min(left, kRun - place % kRun);
      const Piece piece{static_cast<const std::byte*>(block_.data()) + at * size_,
                        values_ + at * size_of(seen_), n, place};
      is_whole ? add_runs(piece, part / position::kGroup, lanes_) : add_some(piece, part / position::kGroup);
      part += n;
      at += n;
      left -= n;
    }
  }

 private:
  static constexpr std::size_t kGroupsAtOnce = kSegment / position::kGroup;

  std::size_t parts_at_once() const {
    return (seen_ == Seen::kFloat64 ? 1 : kGroupsAtOnce) * position::kGroup;
  }

  void add_runs(const Piece& piece, std::uint64_t group, Lanes<float>& lanes) {
    std::array<GroupSums, kGroupsAtOnce> groups;
    const std::uint64_t factor = factor_of(group);
    take_runs(piece, factor, groups.data(), lanes);
    std::size_t done = 0;
    for (std::size_t k = 0; done < piece.count; ++k) {
      const std::size_t place = k == 0 ? piece.place : 0;
      const std::size_t n = std::min(piece.count - done, position::kGroup - place);
      add_group({piece.bits + done * size_, piece.values + done * size_of(seen_), n, place}, group + k,
                groups[k]);
      done += n;
    }
  }

  // Less than a run: zeros, which add nothing, make it one.
  void add_some(const Piece& piece, std::uint64_t group) {
    alignas(64) std::array<std::byte, kRun * sizeof(double)> bits;
    alignas(64) std::array<std::byte, kRun * sizeof(double)> values;
    const std::size_t before = piece.place % kRun;
    const auto fill = [&](auto& to, const std::byte* from, std::size_t size) {
      std::memset(to.data(), 0, kRun * size);
      std::memcpy(to.data() + before * size, from, piece.count * size);
    };
    fill(bits, piece.bits, size_);
    if (piece.bits != piece.values) fill(values, piece.values, size_of(seen_));
    Lanes<float> unused;
    const std::byte* const seen = piece.bits == piece.values ? bits.data() : values.data();
    add_runs({bits.data(), seen, kRun, piece.place - before}, group, unused);
  }

  void take_runs(const Piece& piece, std::uint64_t factor, GroupSums* groups, Lanes<float>& lanes) const {
    const Kernels& k = kernels();
    switch (seen_) {
      case Seen::kFloat32:
        k.fast_f32_with_sketch(piece.values, piece.count, piece.place, factor, groups, &lanes);
        break;
      case Seen::kFloat16:
        k.fast_float16_with_sketch(piece.values, piece.count, piece.place, factor, groups, &lanes);
        break;
      case Seen::kBFloat16:
        k.fast_bfloat16_with_sketch(piece.values, piece.count, piece.place, factor, groups, &lanes);
        break;
      case Seen::kFloat64: k.sketch_f64(piece.values, piece.count, piece.place, factor, groups); break;
    }
  }

  void add_group(const Piece& piece, std::uint64_t group, GroupSums& found) {
    const std::uint64_t factor = factor_of(group);
    if (piece.bits != piece.values) {
      found.digest = kernels().digest(piece.bits, piece.count * size_ / 4, piece.place * size_ / 4, size_);
    }
    if (!is_finite(found.sums)) found.sums = finite_sums(piece, factor);
    for (std::size_t k = 0; k < Sketch::kSums; ++k) {
      partial_.sketch[position::lane(group, static_cast<position::Word>(k))] += found.sums[k];
    }
    partial_.digest += found.digest * factor;
  }

  // Groups mostly follow each other.
  std::uint64_t factor_of(std::uint64_t group) {
    BlockScratch& scratch = block_.scratch();
    if (group != scratch.group) {
      scratch.factor =
          group == scratch.group + 1 ? scratch.factor * position::kStep : position::factor(group);
      scratch.group = group;
    }
    return scratch.factor;
  }

  // Where there are NaN or infinities, or float runs over.
  Sums finite_sums(const Piece& piece, std::uint64_t factor) const {
    constexpr std::array dtypes{DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat64};
    Sums sums{};
    for (std::size_t i = 0; i < piece.count; ++i) {
      double value = 0;
      convert_to_double(piece.values + i * size_of(seen_), dtypes[static_cast<std::size_t>(seen_)], 1,
                        &value);
      if (!std::isfinite(value)) continue;
      const auto place = static_cast<position::Word>(piece.place + i);
      sums[place % Sketch::kSums] += position::sign(factor, place) != 0 ? -value : value;
    }
    return sums;
  }

  Block& block_;
  Partial& partial_;
  Lanes<float>& lanes_;
  Seen seen_;
  std::size_t parts_;
  std::size_t size_;  // bytes of a part
  const std::byte* values_ = nullptr;
};

// The runs of elements of a shard that are neighbours in the whole tensor, too.
class ShardRuns {
 public:
  ShardRuns(std::span<const std::int64_t> local, const SummaryOptions::Shard& shard)
      : local_(local), shard_(shard), outer_(local.size()) {
    while (outer_ > 0) {
      --outer_;
      length_ *= local_[outer_];
      inner_ *= shard_.shape[outer_];
      if (local_[outer_] != shard_.shape[outer_]) break;
    }
  }

  std::int64_t left(std::int64_t element) const { return length_ - element % length_; }

  // Where an element of the shard is in the whole.
  std::int64_t place_of(std::int64_t element) const {
    std::int64_t place = element % length_;
    std::int64_t run = element / length_;
    std::int64_t stride = inner_;
    if (!local_.empty()) place += shard_.offsets[outer_] * (inner_ / shard_.shape[outer_]);
    for (std::size_t d = outer_; d-- > 0;) {
      place += (run % local_[d] + shard_.offsets[d]) * stride;
      run /= local_[d];
      stride *= shard_.shape[d];
    }
    return place;
  }

 private:
  std::span<const std::int64_t> local_;
  const SummaryOptions::Shard& shard_;
  std::size_t outer_;        // the last dimension that is cut, or 0
  std::int64_t length_ = 1;  // elements of a run
  std::int64_t inner_ = 1;   // of the whole, in the same dimensions
};

}  // namespace

void add_sketch(Block& block, const SummaryOptions& options, Partial& partial) {
  Lanes<float> unused;
  Sketcher sketcher(block, partial, unused);
  if (options.shard.shape.empty()) {
    sketcher.add(0, block.count(), block.first());
    return;
  }
  const ShardRuns runs(block.shape(), options.shard);
  const auto count = static_cast<std::int64_t>(block.count());
  for (std::int64_t from = 0; from < count;) {
    const std::int64_t element = block.first() + from;
    const std::int64_t n = std::min(count - from, runs.left(element));
    sketcher.add(static_cast<std::size_t>(from), static_cast<std::size_t>(n), runs.place_of(element));
    from += n;
  }
}

void add_sketch_and_moments(Block& block, Partial& partial, Lanes<float>& lanes) {
  Sketcher(block, partial, lanes).add(0, block.count(), block.first());
  const std::size_t rest = block.count() % kRun;  // no whole run, which has only gone into the sketch
  const std::size_t at = block.count() - rest;
  if (rest == 0) return;
  if (block.dtype() == DType::kFloat32) {
    kernels().fast_f32(static_cast<const float*>(block.data()) + at, rest, &lanes, nullptr, {});
  } else {
    const Half kind = block.dtype() == DType::kFloat16 ? Half::kFloat16 : Half::kBFloat16;
    kernels().fast_half(static_cast<const std::uint16_t*>(block.data()) + at, rest, kind, &lanes, nullptr,
                        {});
  }
}

void merge_sketch(Partial& left, const Partial& right) {
  std::transform(left.sketch.begin(), left.sketch.end(), right.sketch.begin(), left.sketch.begin(),
                 std::plus<>());
  left.digest += right.digest;
}

void finish_sketch(const Partial& whole, const SummaryOptions&, Summary& summary) {
  if (whole.count == 0) return;
  Sketch& sketch = summary.sketch.emplace();
  sketch.sums = whole.sketch;
  sketch.digest = whole.digest;
}

double distance(const Sketch& a, const Sketch& b) noexcept {
  double squares = 0;
  for (std::size_t i = 0; i < Sketch::kSums; ++i) {
    squares += (a.sums[i] - b.sums[i]) * (a.sums[i] - b.sums[i]);
  }
  return std::sqrt(squares);
}

}  // namespace msprobe::stats

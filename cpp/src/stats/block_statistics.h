// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The statistics that are taken on request. Each looks at a tensor block by block while the block is in the
/// first-level cache, so it costs arithmetic but no second read of memory.
///
/// To add one: give SummaryOptions a request and Summary a field (msprobe/stats.h), Partial a member, and
/// the table kBlockStatistics a row. If its result is a number, a row in fields.cpp makes it
/// visible everywhere.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/crc32.h"
#include "base/position.h"
#include "msprobe/stats.h"
#include "stats/kernels.h"
#include "stats/partial.h"

namespace msprobe::stats {

/// Elements of a block. Small, so that the processor's prefetcher, which runs some twenty cache lines ahead,
/// keeps memory busy while the statistics of a block are taken.
inline constexpr std::size_t kBlock = 1024;

/// What the statistics of one segment work with; made anew for each. The arrays are not initialised.
struct BlockScratch {
  alignas(64) std::array<float, 2 * kBlock> floats;
  alignas(64) std::array<double, 2 * kBlock> doubles;
  Crc32 checksum;
  std::uint64_t group = 0;  // of the sketch, and its factor
  std::uint64_t factor = position::factor(0);
};

/// Some consecutive elements of a tensor, without gaps. Converts at most once.
class Block {
 public:
  Block(const void* data, const TensorView& tensor, std::int64_t first, std::size_t count,
        BlockScratch& scratch)
      : data_(data),
        dtype_(tensor.dtype),
        shape_(tensor.shape),
        first_(first),
        count_(count),
        scratch_(scratch) {}

  const void* data() const noexcept { return data_; }
  DType dtype() const noexcept { return dtype_; }
  std::span<const std::int64_t> shape() const noexcept { return shape_; }  // of the tensor
  std::int64_t first() const noexcept { return first_; }                   // index in the tensor
  std::size_t count() const noexcept { return count_; }

  /// The elements as float; float32 itself is not copied. A complex element is two floats.
  const float* floats();

  /// The elements as double; float64 itself is not copied. A complex element is two doubles.
  const double* doubles();

  BlockScratch& scratch() noexcept { return scratch_; }

  /// Of the segment's blocks before this one.
  Crc32& checksum() noexcept { return scratch_.checksum; }

 private:
  const void* data_;
  DType dtype_;
  std::span<const std::int64_t> shape_;
  std::int64_t first_;
  std::size_t count_;
  BlockScratch& scratch_;
  bool converted_ = false;
  bool widened_ = false;
};

/// A segment whose basic statistics are known.
struct KnownSegment {
  DType dtype;
  std::int64_t first;  // its first element's index in the tensor
  const SummaryOptions& options;
};

/// Dtypes with kernels of their own, which take the sign bits along with the basic statistics.
constexpr bool has_fast_kernel(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}

struct BlockStatistic {
  bool (*wanted)(const SummaryOptions&, DType);
  /// Null: blocks are added while the basic statistics are taken. Otherwise called when those of the segment
  /// are known; blocks are added afterwards if it returns true. Signs have been taken by then.
  bool (*start)(const KnownSegment& segment, Partial& partial);
  void (*add)(Block& block, const SummaryOptions&, Partial& partial);
  /// After the last block of a segment. Null: nothing is left to do.
  void (*end)(const BlockScratch&, Partial& partial);
  void (*merge)(Partial& left, const Partial& right);
  void (*finish)(const Partial& whole, const SummaryOptions&, Summary& summary);
};

void add_checksum(Block& block, const SummaryOptions& options, Partial& partial);
void end_checksum(const BlockScratch& scratch, Partial& partial);
void merge_checksum(Partial& left, const Partial& right);
void finish_checksum(const Partial& whole, const SummaryOptions& options, Summary& summary);

void add_sketch(Block& block, const SummaryOptions& options, Partial& partial);
/// Of a dtype with a fast kernel, which adds the basic statistics in the same loop.
void add_sketch_and_moments(Block& block, Partial& partial, Lanes<float>& lanes);
void merge_sketch(Partial& left, const Partial& right);
void finish_sketch(const Partial& whole, const SummaryOptions& options, Summary& summary);

void add_signs(Block& block, const SummaryOptions& options, Partial& partial);

void add_powers(Block& block, const SummaryOptions& options, Partial& partial);
void merge_powers(Partial& left, const Partial& right);
void finish_powers(const Partial& whole, const SummaryOptions& options, Summary& summary);

void add_small(Block& block, const SummaryOptions& options, Partial& partial);
void merge_small(Partial& left, const Partial& right);
void finish_small(const Partial& whole, const SummaryOptions& options, Summary& summary);

bool start_intervals(const KnownSegment& segment, Partial& partial);
void add_intervals(Block& block, const SummaryOptions& options, Partial& partial);
void merge_intervals(Partial& left, const Partial& right);
void finish_intervals(const Partial& whole, const SummaryOptions& options, Summary& summary);

/// Visible to the compiler, so that asking which are wanted costs a small tensor nothing.
inline constexpr std::array kBlockStatistics{
    BlockStatistic{
        [](const SummaryOptions& o, DType) { return o.checksum != SummaryOptions::Checksum::kNone; }, nullptr,
        add_checksum, end_checksum, merge_checksum, finish_checksum},
    BlockStatistic{[](const SummaryOptions& o, DType) { return o.sketch; }, nullptr, add_sketch, nullptr,
                   merge_sketch, finish_sketch},
    BlockStatistic{
        [](const SummaryOptions& o, DType dtype) { return !o.signs.empty() && !has_fast_kernel(dtype); },
        nullptr, add_signs, nullptr, [](Partial&, const Partial&) {},
        [](const Partial&, const SummaryOptions&, Summary&) {}},
    BlockStatistic{[](const SummaryOptions& o, DType) { return o.powers; }, nullptr, add_powers, nullptr,
                   merge_powers, finish_powers},
    BlockStatistic{[](const SummaryOptions& o, DType) { return o.small > 0; }, nullptr, add_small, nullptr,
                   merge_small, finish_small},
    BlockStatistic{[](const SummaryOptions& o, DType) { return !o.bounds.empty(); }, start_intervals,
                   add_intervals, nullptr, merge_intervals, finish_intervals},
};

}  // namespace msprobe::stats

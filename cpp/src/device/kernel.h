// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The kernel: one launch measures many tensors, each by one block of threads or more. The library holds this
/// text and those that it includes, and compiles it for the device where it runs; the processor runs it in
/// the place of a device for tests (host_device.cpp). So it is written in steps that all threads of a block
/// take together: Block::each(step) runs step(thread) for each of them, and all have done it when it returns.
///
/// What is added up follows from positions and the number of blocks alone, so results are the same from run
/// to run on one device.

#include "device/readers.h"

// A function that stays one, so that compilers of devices need not place all at once.
#ifdef MSPROBE_ON_DEVICE
#define MSPROBE_APART __device__ __noinline__
#else
#define MSPROBE_APART
#endif

namespace msprobe::device {

/// What the threads of a block share.
struct Shared {
  Long words[kSlices][kThreads + 1];  // a field in a row; one more, so that rows begin in different banks
  Long slices[kSlices][kSlices];
  Long fields[kFields];
  Word is_last;
};
static_assert(Word{kPairFields} <= Word{kFields} && kThreads == kSlices * kSlices);

/// Joins what the slices have of fields [first, first + count) into `to`.
template <typename Block>
MSPROBE_APART void join_slices(Block& block, Word wanted, Word first, Word count, Long* to) {
  const Shared& shared = block.shared();
  block.each([&](Word thread) {
    if (thread >= count) return;
    const Join join = join_of(wanted, first + thread);
    Long all = nothing(join);
    MSPROBE_ROLLED
    for (Word slice = 0; slice < kSlices; ++slice) all = joined(join, all, shared.slices[thread][slice]);
    to[thread] = all;
  });
}

/// Joins rows [0, count) of the words of all threads into the fields from `first` on.
template <typename Block>
MSPROBE_APART void join_rows(Block& block, Word wanted, Word first, Word count) {
  Shared& shared = block.shared();
  block.each([&](Word thread) {
    const Word row = thread % kSlices;
    if (row >= count) return;
    const Word slice = thread / kSlices;
    const Join join = join_of(wanted, first + row);
    Long all = nothing(join);
    MSPROBE_ROLLED
    for (Word i = 0; i < kThreads / kSlices; ++i) {
      all = joined(join, all, shared.words[row][slice * (kThreads / kSlices) + i]);
    }
    shared.slices[row][slice] = all;
  });
  join_slices(block, wanted, first, count, shared.fields + first);
}

/// Runs a reader in each thread, and joins what it found. `lane_of(thread)`: the lane of the first part.
template <typename Reader, typename Block, typename Lane>
MSPROBE_APART void measure(Block& block, const Item& item, Word number, Lane lane_of) {
  typename Block::template PerThread<Reader> readers;
  Shared& shared = block.shared();
  block.each([&](Word thread) {
    Reader& reader = readers[thread];
    reader = Reader();
    reader.run(item, number, thread);
    const Sums& sums = reader.sums;
    const double doubles[] = {sums.sum,       sums.squares,  sums.min,   sums.max,
                              sums.imaginary, sums.absolute, sums.fourth};
    MSPROBE_UNROLLED
    for (Word f = 0; f < kSketch; ++f) shared.words[f][thread] = as_long(doubles[f]);
    for (Word lane = 0; lane < position::kLanes; ++lane) shared.words[kSketch + lane][thread] = 0;
    MSPROBE_UNROLLED
    for (Word p = 0; p < sizeof(reader.sketch) / sizeof(double); ++p) {
      shared.words[kSketch + (lane_of(thread) + p) % position::kLanes][thread] = as_long(reader.sketch[p]);
    }
    shared.words[kDigest][thread] = reader.digest;
  });
  static_assert(kDigest < kSlices && kFields - kNaN <= kSlices);
  join_rows(block, item.wanted, 0, kDigest + 1);
  block.each([&](Word thread) {
    const Reader& reader = readers[thread];
    const Word counts[] = {reader.not_finite.nan, reader.not_finite.pos_inf, reader.not_finite.neg_inf,
                           reader.counts.zeros, reader.counts.small};
    MSPROBE_UNROLLED
    for (Word f = 0; f < kAbove - kNaN; ++f) shared.words[f][thread] = counts[f];
    MSPROBE_UNROLLED
    for (Word b = 0; b < kBounds; ++b) shared.words[kAbove - kNaN + b][thread] = reader.counts.above[b];
  });
  join_rows(block, item.wanted, kNaN, kFields - kNaN);
}

template <typename Block>
MSPROBE_APART void measure_pairs(Block& block, const Item& item, Word number) {
  typename Block::template PerThread<PairReader> readers;
  Shared& shared = block.shared();
  block.each([&](Word thread) {
    PairReader& reader = readers[thread];
    reader = PairReader();
    reader.run(item, number, thread);
    MSPROBE_UNROLLED
    for (Word f = 0; f < kAgree; ++f) shared.words[f][thread] = as_long(reader.found.sums[f]);
    MSPROBE_UNROLLED
    for (Word f = kAgree; f < kPairFields; ++f) shared.words[f][thread] = reader.found.counts[f - kAgree];
  });
  static_assert(kPairFields <= kSlices);
  join_rows(block, item.wanted, 0, kPairFields);
}

template <typename Reader, typename Block>
MSPROBE_ANYWHERE void measure_chunks(Block& block, const Item& item, Word number) {
  // A block goes on by a multiple of kLanes groups, or has one round: so the lanes of a thread stay.
  measure<Reader>(block, item, number, [number](Word thread) {
    const Word part = thread * Reader::kParts;
    return part % position::kGroup + number * Reader::kGroups + part / position::kGroup;
  });
}

template <Word kDtype, typename Block>
MSPROBE_ANYWHERE void measure_chunks_of(Block& block, const Item& item, Word number) {
  if ((item.wanted & kSketches) != 0) {
    measure_chunks<ChunkReader<kDtype, true>>(block, item, number);
  } else {
    measure_chunks<ChunkReader<kDtype, false>>(block, item, number);
  }
}

template <typename Block>
MSPROBE_ANYWHERE void measure_item(Block& block, const Item& item, Word number) {
  if ((item.wanted & kPairs) != 0) {
    measure_pairs(block, item, number);
  } else if (item.by_chunk != 0) {
    switch (item.dtype) {
      case kFloat32: measure_chunks_of<kFloat32>(block, item, number); break;
      case kBFloat16: measure_chunks_of<kBFloat16>(block, item, number); break;
      default: measure_chunks_of<kFloat16>(block, item, number);
    }
  } else if (parts_of(item.dtype) == 2) {
    measure<ElementReader<2>>(block, item, number, [number](Word thread) { return 2 * thread + number; });
  } else {
    measure<ElementReader<1>>(block, item, number, [number](Word thread) { return thread + number; });
  }
}

/// The whole kernel, for one block of threads.
template <typename Block>
MSPROBE_ANYWHERE void run_block(Block& block, const Table& table) {
  const Item* const items = table.far != nullptr ? table.far : table.near;
  Word low = 0;
  for (Word high = table.count; high - low > 1;) {
    const Word middle = low + (high - low) / 2;
    (items[middle].first_block <= block.number() ? low : high) = middle;
  }
  const Item& item = items[low];
  const Word number = block.number() - item.first_block;
  if ((item.wanted & kSigns) != 0) {
    block.each([&](Word thread) { SignReader::run(item, number, thread); });
    return;
  }
  const Word fields = fields_of(item.wanted);
  Shared& shared = block.shared();
  measure_item(block, item, number);
  Long* const result = table.results + static_cast<Long>(item.result) * kFields;
  if (item.blocks == 1) {
    block.each([&](Word thread) {
      if (thread < fields) result[thread] = shared.fields[thread];
      if (thread == kRawBits && (item.wanted & kRaw) != 0) {
        result[thread] = bits_at(item.data, part_size(item.dtype));
      }
    });
    return;
  }
  // The block that comes last joins what all have found, in their order.
  Long* const partial = table.partial + static_cast<Long>(item.first_block) * kFields;
  block.each([&](Word thread) {
    if (thread < fields) partial[static_cast<Long>(number) * kFields + thread] = shared.fields[thread];
    block.publish();
  });
  block.each([&](Word thread) {
    if (thread == 0) shared.is_last = block.take_ticket(table.tickets + low) == item.blocks - 1 ? 1 : 0;
  });
  if (shared.is_last == 0) return;
  for (Word first = 0; first < fields; first += kSlices) {
    const Word count = fields - first < kSlices ? fields - first : kSlices;
    block.each([&](Word thread) {
      const Word slice = thread / kSlices;
      const Word row = thread % kSlices;
      if (row >= count) return;
      const Join join = join_of(item.wanted, first + row);
      const Word each = (item.blocks + kSlices - 1) / kSlices;
      Long all = nothing(join);
      MSPROBE_UNROLLED
      for (Word b = slice * each; b < (slice + 1) * each && b < item.blocks; ++b) {
        all = joined(join, all, block.published(partial + static_cast<Long>(b) * kFields + first + row));
      }
      shared.slices[row][slice] = all;
    });
    join_slices(block, item.wanted, first, count, result + first);
  }
  block.each([&](Word thread) {
    if (thread == 0) table.tickets[low] = 0;  // for the next launch
  });
}

}  // namespace msprobe::device

#ifdef MSPROBE_ON_DEVICE

namespace {

struct DeviceBlock {
  msprobe::device::Shared* memory;

  template <typename T>
  struct PerThread {
    T mine;
    __device__ T& operator[](msprobe::device::Word) { return mine; }
  };

  __device__ msprobe::device::Shared& shared() const { return *memory; }
  __device__ msprobe::device::Word number() const { return blockIdx.x; }

  template <typename Step>
  __device__ void each(Step step) const {
    step(threadIdx.x);
    __syncthreads();
  }

  __device__ void publish() const { __threadfence(); }
  __device__ msprobe::device::Word take_ticket(msprobe::device::Word* ticket) const {
    return atomicAdd(ticket, 1U);
  }
  __device__ msprobe::device::Long published(const msprobe::device::Long* word) const { return __ldcg(word); }
};

}  // namespace

extern "C" __global__ void __launch_bounds__(msprobe::device::kThreads, 2)
    msprobe_measure(const __grid_constant__ msprobe::device::Table table) {
  __shared__ msprobe::device::Shared memory;
  DeviceBlock block{&memory};
  msprobe::device::run_block(block, table);
}

#endif

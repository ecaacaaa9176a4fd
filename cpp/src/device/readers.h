// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What a launch of the kernel gets, and how a thread reads its part of a tensor: by whole chunks, or element
/// by element in any dtype and layout. See kernel.h.

#include "device/arithmetic.h"

namespace msprobe::device {

constexpr Word kThreads = 256;
constexpr Word kChunk = 16;  // bytes that a thread reads at once
constexpr Word kAhead = 4;  // chunks that it asks for before it uses the first, and adds up in float, at most
constexpr Word kSlices = 16;  // a block joins its fields in so many parts at once
constexpr Word kNear = 12;    // tensors whose items come with the launch itself
constexpr Word kDims = 4;

/// A dimension of memory: units from one index to the next are `stride` bytes apart. `multiplier` and `shift`
/// divide by the extent what is below 2^31.
struct Dimension {
  long long stride;
  Word extent;
  Word multiplier;
  Word shift;
};

/// One tensor, and what is wanted of it.
struct Item {
  const unsigned char* data;
  const unsigned char* other;   // of kPairs
  Word* bits;                   // of kSigns: where to, 32 of them in each; the first is the lowest
  Long first;                   // of kSigns: the element of the first bit
  Long count;                   // elements, of kSigns from that one on
  double small;                 // of kCounts; of kPairs the floor of ratios
  Dimension dimensions[kDims];  // the last one changes fastest
  Dimension other_dimensions[kDims];
  float bounds[kBounds];
  Word rank;    // of both; 0: without gaps
  Word result;  // where to, in numbers of kFields words
  Word first_block;
  Word blocks;
  unsigned char dtype;
  unsigned char other_dtype;
  unsigned char wanted;
  unsigned char by_chunk;  // units are chunks, which are aligned; else they are elements
  unsigned char bound_count;
};

/// What a launch gets. `partial` has room for kFields words for each block, `tickets` one zero for each item.
struct Table {
  const Item* far;  // null: all items are near
  Long* results;
  Long* partial;
  Word* tickets;
  Word count;
  Item near[kNear];
};
static_assert(sizeof(Table) <= 4096);  // what any version of CUDA takes with a launch

/// n / extent, for n below 2^31.
MSPROBE_ANYWHERE inline Word quotient(Word n, const Dimension& dimension) {
  return static_cast<Word>(static_cast<Long>(n) * dimension.multiplier >> (31 + dimension.shift));
}

/// Bytes from the first unit to unit number `index`, which is below 2^31.
MSPROBE_ANYWHERE inline long long place_of(const Dimension* dimensions, Word rank, Word index) {
  long long place = 0;
  MSPROBE_ROLLED
  for (Word d = rank; d-- > 0;) {
    const Dimension& dimension = dimensions[d];
    const Word next = quotient(index, dimension);
    place += static_cast<long long>(index - next * dimension.extent) * dimension.stride;
    index = next;
  }
  return place;
}

/// Likewise, for any index.
MSPROBE_ANYWHERE inline long long place_of(const Dimension* dimensions, Word rank, Long index) {
  if (index >> 31 == 0) return place_of(dimensions, rank, static_cast<Word>(index));
  long long place = 0;
  MSPROBE_ROLLED
  for (Word d = rank; d-- > 0;) {
    const Dimension& dimension = dimensions[d];
    const Long next = index / dimension.extent;
    place += static_cast<long long>(index - next * dimension.extent) * dimension.stride;
    index = next;
  }
  return place;
}

MSPROBE_ANYWHERE inline Long bits_at(const unsigned char* data, Word size) {
  switch (size) {
    case 8: return *reinterpret_cast<const Long*>(data);
    case 4: return *reinterpret_cast<const Word*>(data);
    case 2: return *reinterpret_cast<const unsigned short*>(data);
    default: return *data;
  }
}

struct alignas(16) Chunk {
  Word words[4];
};

MSPROBE_ANYWHERE inline Chunk chunk_at(const unsigned char* data) {
#ifdef MSPROBE_ON_DEVICE
  const uint4 read = __ldcs(reinterpret_cast<const uint4*>(data));  // it is not read again
  return {{read.x, read.y, read.z, read.w}};
#else
  return *reinterpret_cast<const Chunk*>(data);
#endif
}

MSPROBE_ANYWHERE inline float least_of(float a, float b) {
#ifdef MSPROBE_ON_DEVICE
  return fminf(a, b);
#else
  return b < a ? b : a;
#endif
}

MSPROBE_ANYWHERE inline float most_of(float a, float b) {
#ifdef MSPROBE_ON_DEVICE
  return fmaxf(a, b);
#else
  return b > a ? b : a;
#endif
}

MSPROBE_ANYWHERE inline float magnitude(float x) { return as_float(as_word(x) & 0x7FFFFFFFU); }

/// Elements whose squares are added in float: the sum of those of a chunk lies between. Others, and chunks
/// that are not whole, are taken one by one in double.
constexpr float kLeastSquares = 0x1p-100F;
constexpr float kMostSquares = 0x1p120F;

// ---------------------------------------------------------------- chunks of float32, bfloat16 and float16

/// `kSketched`: digest and sketch are taken; otherwise what is wanted of powers and counts is.
template <Word kDtype, bool kSketched>
struct ChunkReader {
  static constexpr Word kSize = part_size(kDtype);
  static constexpr Word kParts = kChunk / kSize;
  static constexpr Word kTurn = kSketched ? kAhead : kAhead / 2;
  static constexpr Word kGroups = kThreads * kParts / position::kGroup;  // that a block reads at once
  static_assert(kGroups > 0);

  Sums sums;
  NotFinite not_finite;
  Counts counts;
  Long digest = 0;
  double sketch[kSketched ? kParts : 1] = {};
  float low = as_float(0x7F800000U);
  float high = as_float(0xFF800000U);
  // Of the chunks of one turn.
  float sum = 0;
  float squares = 0;
  float absolute = 0;
  float turn_sketch[kSketched ? kParts : 1] = {};

  MSPROBE_ANYWHERE static float element(const Chunk& chunk, Word k) {
    if constexpr (kSize == 4) return as_float(chunk.words[k]);
    const Word word = chunk.words[k / 2];
    if constexpr (kDtype == kBFloat16) return as_float(k % 2 == 0 ? word << 16 : word & 0xFFFF0000U);
    return float16_of(k % 2 == 0 ? word & 0xFFFF : word >> 16);
  }

  /// False: the chunk is to be taken one by one. `sign`: 1 or -1, that of the run.
  MSPROBE_ANYWHERE bool add(const Chunk& chunk, float sign, const Item& item) {
    float x[kParts];
    float of_chunk = 0;
    float of_squares = 0;
    MSPROBE_UNROLLED
    for (Word k = 0; k < kParts; ++k) {
      x[k] = element(chunk, k);
      of_chunk += x[k];
      of_squares += x[k] * x[k];
    }
    if (!(of_squares >= kLeastSquares && of_squares <= kMostSquares)) return false;
    sum += of_chunk;
    squares += of_squares;
    MSPROBE_UNROLLED
    for (Word k = 0; k < kParts; ++k) {
      low = least_of(low, x[k]);
      high = most_of(high, x[k]);
      if constexpr (kSketched) turn_sketch[k] += sign * x[k];
    }
    if constexpr (!kSketched) {
      if ((item.wanted & kPowers) != 0) add_powers(x, of_squares);
      if ((item.wanted & kCounts) != 0) {
        MSPROBE_UNROLLED
        for (Word k = 0; k < kParts; ++k) {
          counts.add(x[k], magnitude(x[k]), item.small, item.bounds, item.bound_count);
        }
      }
    }
    return true;
  }

  // Fourth powers in units of the square of the largest power of two in the sum of squares.
  MSPROBE_ANYWHERE void add_powers(const float* x, float of_squares) {
    const Word exponent = as_word(of_squares) & 0x7F800000U;
    const float unit = as_float((254U << 23) - exponent);
    float fourth = 0;
    MSPROBE_UNROLLED
    for (Word k = 0; k < kParts; ++k) {
      const float square = x[k] * x[k] * unit;
      absolute += magnitude(x[k]);
      fourth += square * square;
    }
    const double scale = as_float(exponent);
    sums.fourth += fourth * scale * scale;
  }

  /// `whole`: elements of the chunk.
  MSPROBE_ANYWHERE void add_one_by_one(const Chunk& chunk, Word whole, float sign, const Item& item) {
    MSPROBE_UNROLLED
    for (Word k = 0; k < kParts; ++k) {
      if (k >= whole) continue;
      const double x = element(chunk, k);
      if (is_finite(x)) {
        sums.add(x, 0, item.wanted);
        if constexpr (kSketched) sketch[k] += sign * x;
      } else {
        not_finite.add(x, 0);
      }
      if (!kSketched && (item.wanted & kCounts) != 0) {
        counts.add(x, magnitude(x), item.small, item.bounds, item.bound_count);
      }
    }
  }

  /// What was added in float goes into doubles.
  MSPROBE_ANYWHERE void end_turn() {
    sums.sum += sum;
    sums.squares += squares;
    sum = squares = 0;
    if constexpr (kSketched) {
      MSPROBE_UNROLLED
      for (Word k = 0; k < kParts; ++k) {
        sketch[k] += turn_sketch[k];
        turn_sketch[k] = 0;
      }
    } else {
      sums.absolute += absolute;
      absolute = 0;
    }
  }

  MSPROBE_ANYWHERE static const unsigned char* place(const Item& item, Long chunk) {
    return item.data + (item.rank == 0 ? static_cast<long long>(chunk) * kChunk
                                       : place_of(item.dimensions, item.rank, static_cast<Word>(chunk)));
  }

  /// The first `whole` elements of a chunk, and zeros.
  MSPROBE_ANYWHERE static Chunk some(const unsigned char* data, Word whole) {
    if (whole == kParts) return chunk_at(data);
    Chunk chunk = {};
    MSPROBE_ROLLED
    for (Word k = 0; k < whole; ++k) {
      const Word bits = static_cast<Word>(bits_at(data + static_cast<Long>(k) * kSize, kSize))
                        << (k * kSize % 4 * 8);
      MSPROBE_UNROLLED
      for (Word j = 0; j < 4; ++j) chunk.words[j] |= j == k * kSize / 4 ? bits : 0;
    }
    return chunk;
  }

  MSPROBE_ANYWHERE static Long digest_of(const Chunk& chunk, const Word* keys) {
    Long found = 0;
    MSPROBE_UNROLLED
    for (Word j = 0; j < 4; ++j) {
      found += static_cast<Long>(keys[j]) * position::reversed(chunk.words[j], kSize);
    }
    return found;
  }

  MSPROBE_ANYWHERE void run(const Item& item, Word block, Word thread) {
    const Long chunks = item.count / kParts;
    const Word rest = static_cast<Word>(item.count % kParts);
    const Long all = chunks + (rest > 0 ? 1 : 0);
    // The place in its group is the same for all chunks of a thread.
    const Word first_place = thread * kParts % position::kGroup;
    const Word run = first_place / position::kRun;
    Word keys[4];
    MSPROBE_UNROLLED
    for (Word j = 0; j < 4; ++j) keys[j] = position::key(first_place * kSize / 4 + j);
    Long factor = position::factor(thread * kParts / position::kGroup + block * kGroups);
    const Long step = position::power(static_cast<Long>(item.blocks) * kGroups);
    const auto sign_of = [run](Long f) { return position::run_sign(f, run) != 0 ? -1.0F : 1.0F; };
    const Long stride = static_cast<Long>(item.blocks) * kThreads;
    MSPROBE_ROLLED
    for (Long first = static_cast<Long>(block) * kThreads + thread; first < all; first += stride * kTurn) {
      Chunk chunk[kTurn];
      MSPROBE_UNROLLED
      for (Word a = 0; a < kTurn; ++a) {
        if (first + a * stride < chunks) chunk[a] = chunk_at(place(item, first + a * stride));
      }
      const Long of_first = factor;
      Word left = 0;  // chunks that are to be taken one by one
      MSPROBE_UNROLLED
      for (Word a = 0; a < kTurn; ++a) {
        const bool is_whole = first + a * stride < chunks;
        if (!is_whole || !add(chunk[a], sign_of(factor), item)) left |= 1U << a;
        if constexpr (kSketched) {
          if (is_whole) digest += digest_of(chunk[a], keys) * factor;
          factor *= step;
        }
      }
      MSPROBE_ROLLED
      for (Long number = first, of_left = of_first; left != 0 && number < all;
           number += stride, of_left *= step, left >>= 1) {
        if ((left & 1) == 0) continue;
        const Word whole = number < chunks ? kParts : rest;
        const Chunk read = some(place(item, number), whole);
        add_one_by_one(read, whole, sign_of(of_left), item);
        if (kSketched && number == chunks) digest += digest_of(read, keys) * of_left;
      }
      end_turn();
    }
    sums.min = low < sums.min ? low : sums.min;
    sums.max = high > sums.max ? high : sums.max;
    if constexpr (kSketched) {
      MSPROBE_UNROLLED
      for (Word k = 0; k < kParts; ++k)
        sketch[k] = position::own_sign(first_place + k) != 0 ? -sketch[k] : sketch[k];
    }
  }
};

// ------------------------------------------------------------------------- elements of any dtype and layout

/// `kParts` of each element. What is not wanted is not taken.
template <Word kDtypeParts>
struct ElementReader {
  static constexpr Word kParts = kDtypeParts;
  static constexpr Word kElements = position::kGroup / kParts;  // of a group

  Sums sums;
  NotFinite not_finite;
  Counts counts;
  Long digest = 0;
  double sketch[kParts] = {};

  MSPROBE_ANYWHERE void run(const Item& item, Word block, Word thread) {
    const Word size = part_size(item.dtype);
    const Long groups = (item.count + kElements - 1) / kElements;
    Long factor = position::factor(block);
    const Long step = position::power(item.blocks);
    for (Long group = block; group < groups; group += item.blocks, factor *= step) {
      for (Word k = thread; k < kElements; k += kThreads) {
        const Long index = group * kElements + k;
        if (index < item.count) add(item, index, size, k * kParts, factor);
      }
    }
  }

  MSPROBE_ANYWHERE void add(const Item& item, Long index, Word size, Word place, Long factor) {
    const long long at = item.rank == 0 ? static_cast<long long>(index) * size * kParts
                                        : place_of(item.dimensions, item.rank, index);
    double value[2] = {};
    MSPROBE_UNROLLED
    for (Word p = 0; p < kParts; ++p) {
      const Long bits = bits_at(item.data + at + static_cast<Long>(p) * size, size);
      value[p] = value_of(item.dtype, bits);
      if ((item.wanted & kSketches) == 0) continue;
      digest += position::digest_of(bits, size, place + p) * factor;
      if (is_finite(value[p])) sketch[p] += position::sign(factor, place + p) != 0 ? -value[p] : value[p];
    }
    if (is_finite(value[0]) && is_finite(value[1])) {
      sums.add(value[0], value[1], item.wanted);
    } else {
      not_finite.add(value[0], value[1]);
    }
    if ((item.wanted & kCounts) != 0) {
      counts.add(value[0], magnitude(value[0], value[1]), item.small, item.bounds, item.bound_count);
    }
  }
};

struct PairReader {
  FoundPairs found;

  MSPROBE_ANYWHERE void run(const Item& item, Word block, Word thread) {
    const Word size = part_size(item.dtype);
    const Word other_size = part_size(item.other_dtype);
    const Long stride = static_cast<Long>(item.blocks) * kThreads;
    for (Long i = static_cast<Long>(block) * kThreads + thread; i < item.count; i += stride) {
      const bool plain = item.rank == 0;
      const long long left =
          plain ? static_cast<long long>(i) * size : place_of(item.dimensions, item.rank, i);
      const long long right =
          plain ? static_cast<long long>(i) * other_size : place_of(item.other_dimensions, item.rank, i);
      found.add(value_of(item.dtype, bits_at(item.data + left, size)),
                value_of(item.other_dtype, bits_at(item.other + right, other_size)), item.small);
    }
  }
};

constexpr Word kWordBits = 32;

struct SignReader {
  MSPROBE_ANYWHERE static void run(const Item& item, Word block, Word thread) {
    const Word size = part_size(item.dtype);
    const Long words = (item.count + kWordBits - 1) / kWordBits;
    const Long stride = static_cast<Long>(item.blocks) * kThreads;
    for (Long word = static_cast<Long>(block) * kThreads + thread; word < words; word += stride) {
      const Long left = item.count - word * kWordBits;
      const Word count = left < kWordBits ? static_cast<Word>(left) : kWordBits;
      Word bits = 0;
      MSPROBE_ROLLED
      for (Word k = 0; k < count; ++k) {
        const Long index = item.first + word * kWordBits + k;
        const long long at = item.rank == 0 ? static_cast<long long>(index) * size
                                            : place_of(item.dimensions, item.rank, index);
        if (value_of(item.dtype, bits_at(item.data + at, size)) > 0) bits |= 1U << k;
      }
      item.bits[word] = bits;
    }
  }
};

}  // namespace msprobe::device

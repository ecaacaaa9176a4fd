// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The inner loops of compare(), compiled for several instruction sets and chosen at run time. All work on
/// contiguous memory of any alignment. Checkpoints have a loop of their own: see
/// checkpoint/difference_kernels.h.

#include <cstddef>
#include <cstdint>
#include <limits>

namespace msprobe::metrics {

/// Sums are spread over this many lanes whatever the width of the machine's vectors, and which pair goes to
/// which lane depends on its position alone.
inline constexpr std::size_t kLanes = 16;

/// Pairs of a block, a multiple of kLanes. Sums of a block start at zero, so that a block with NaN or Inf can
/// be taken back.
inline constexpr std::size_t kBlock = 1024;

/// Element types with kernels of their own; both sides have the same. Others are converted.
enum class Element : std::uint8_t { kFloat32, kBFloat16, kFloat16, kFloat64 };
inline constexpr std::size_t kElements = 4;

/// How relative errors come about.
enum class Relative : std::uint8_t {
  kPlain,      // what is added to zero is not zero, so they cannot be NaN
  kMayBeNaN,   // what is added to zero may be zero
  kInFloat16,  // the same, and every operation rounds to float16
};
inline constexpr std::size_t kRelatives = 3;

/// Sums of one segment of a pair, per lane.
struct PairLanes {
  double dot[kLanes] = {};
  double squared_distance[kLanes] = {};
  double target_sum[kLanes] = {};
  double reference_sum[kLanes] = {};
  double target_squares[kLanes] = {};
  double reference_squares[kLanes] = {};
};

struct Extremes {
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
};

/// What is not summed.
struct PairState {
  Extremes target;
  Extremes reference;
  double max_absolute = 0;
  double max_relative = 0;
  std::int64_t finite_pairs = 0;
  std::int64_t below_thousandth = 0;
  std::int64_t below_five_thousandths = 0;
  std::int64_t relative_nan = 0;
};

/// What is added to both sides where the reference is 0.
struct ZeroShift {
  double target;
  double reference;
};

/// Adds `count` pairs, a multiple of kLanes and at most kBlock. The first kind returns false and adds nothing
/// when an element is not finite (or the squares overflow); the second leaves such pairs out.
using AddFinite = bool (*)(const void* target, const void* reference, std::size_t count, ZeroShift shift,
                           PairLanes* lanes, PairState* state);
using AddEquals = bool (*)(const void* data, std::size_t count, PairLanes* lanes, PairState* state);
using AddAny = void (*)(const void* target, const void* reference, std::size_t count, ZeroShift shift,
                        PairLanes* lanes, PairState* state);

struct Kernels {
  /// Elements of `item` bytes (1, 2, 4, 8 or 16) that are the same, bit by bit; at most kBlock.
  std::int64_t (*count_equal)(const void* target, const void* reference, std::size_t count, std::size_t item);
  /// Null for combinations that do not occur: kInFloat16 is for float16 alone, kMayBeNaN for what others are
  /// converted to.
  AddFinite add_finite[kElements][kRelatives];
  AddAny add_any[kElements][kRelatives];
  /// As add_finite does where both sides are the same bits and relative errors are kPlain, with one of them.
  AddEquals add_equals[kElements];
};

/// The best kernels for this processor; found once.
const Kernels& kernels();

}  // namespace msprobe::metrics

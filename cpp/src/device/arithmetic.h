// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What is measured of a tensor on a device: the arithmetic of one element, and how partial results are
/// joined. One text, which the compiler of the device and that of the processor both take, so that each
/// formula is tested without a device. It includes nothing but its like, and no header of any device.

#include "base/position.h"

// Before a loop: indices of arrays in it are known when the kernel is compiled, so that these stay in
// registers; or it is to stay small.
#ifdef MSPROBE_ON_DEVICE
#define MSPROBE_UNROLLED _Pragma("unroll")
#define MSPROBE_ROLLED _Pragma("unroll 1")
#else
#define MSPROBE_UNROLLED
#define MSPROBE_ROLLED
#endif

namespace msprobe::device {

using position::Long;
using position::Word;

// -------------------------------------------------------------------------------------------------- elements

/// Numbers of dtypes: those of msprobe::DType.
enum Dtype : Word {
  kFloat64,
  kFloat32,
  kFloat16,
  kBFloat16,
  kFloat8E4M3FN,
  kFloat8E4M3FNUZ,
  kFloat8E5M2,
  kFloat8E5M2FNUZ,
  kFloat8E8M0FNU,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUInt64,
  kUInt32,
  kUInt16,
  kUInt8,
  kBool,
  kComplex32,
  kComplex64,
  kComplex128
};

/// Bytes of a part: of an element, or of the real or imaginary part of a complex one.
MSPROBE_ANYWHERE constexpr Word part_size(Word dtype) {
  switch (dtype) {
    case kFloat64:
    case kInt64:
    case kUInt64:
    case kComplex128: return 8;
    case kFloat32:
    case kInt32:
    case kUInt32:
    case kComplex64: return 4;
    case kFloat16:
    case kBFloat16:
    case kInt16:
    case kUInt16:
    case kComplex32: return 2;
    default: return 1;
  }
}

MSPROBE_ANYWHERE constexpr Word parts_of(Word dtype) { return dtype >= kComplex32 ? 2 : 1; }

MSPROBE_ANYWHERE inline float as_float(Word bits) {
#ifdef MSPROBE_ON_DEVICE
  return __uint_as_float(bits);
#else
  return __builtin_bit_cast(float, bits);
#endif
}

MSPROBE_ANYWHERE inline Word as_word(float value) {
#ifdef MSPROBE_ON_DEVICE
  return __float_as_uint(value);
#else
  return __builtin_bit_cast(Word, value);
#endif
}

MSPROBE_ANYWHERE inline double as_double(Long bits) {
#ifdef MSPROBE_ON_DEVICE
  return __longlong_as_double(static_cast<long long>(bits));
#else
  return __builtin_bit_cast(double, bits);
#endif
}

MSPROBE_ANYWHERE inline Long as_long(double value) {
#ifdef MSPROBE_ON_DEVICE
  return static_cast<Long>(__double_as_longlong(value));
#else
  return __builtin_bit_cast(Long, value);
#endif
}

/// A small float of which `bits` has sign, exponent and fraction: its exponent begins at 2^-`bias`.
MSPROBE_ANYWHERE inline float widened(Word bits, Word size, Word fraction_bits, Word bias) {
  const Word magnitude = bits & ((1U << (size - 1)) - 1);
  const float scale = as_float((254 - bias) << 23);  // 2^(127 - bias): subnormal numbers come out right, too
  return as_float(as_word(as_float(magnitude << (23 - fraction_bits)) * scale) | (bits >> (size - 1)) << 31);
}

MSPROBE_ANYWHERE inline float float16_of(Word bits) {
#ifdef MSPROBE_ON_DEVICE
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<unsigned short>(bits)));
  return value;
#else
  if ((bits & 0x7C00) == 0x7C00) return as_float((bits & 0x8000) << 16 | 0x7F800000U | (bits & 0x3FF) << 13);
  return widened(bits, 16, 10, 15);
#endif
}

MSPROBE_ANYWHERE inline float bfloat16_of(Word bits) { return as_float(bits << 16); }

/// The value of a part as a double; 64-bit integers are rounded.
MSPROBE_ANYWHERE inline double value_of(Word dtype, Long bits) {
  const Word word = static_cast<Word>(bits);
  const float nan = as_float(0x7FC00000U);
  switch (dtype) {
    case kFloat64:
    case kComplex128: return as_double(bits);
    case kFloat32:
    case kComplex64: return as_float(word);
    case kFloat16:
    case kComplex32: return float16_of(word);
    case kBFloat16: return bfloat16_of(word);
    case kFloat8E4M3FN: return (word & 0x7F) == 0x7F ? nan : widened(word, 8, 3, 7);
    case kFloat8E4M3FNUZ: return word == 0x80 ? nan : widened(word, 8, 3, 8);
    case kFloat8E5M2: return float16_of(word << 8);
    case kFloat8E5M2FNUZ: return word == 0x80 ? nan : widened(word, 8, 2, 16);
    case kFloat8E8M0FNU: return word == 0xFF ? nan : as_float(word == 0 ? 0x400000U : word << 23);
    case kInt64: return static_cast<double>(static_cast<long long>(bits));
    case kInt32: return static_cast<double>(static_cast<int>(word));
    case kInt16: return static_cast<double>(static_cast<short>(word));
    case kInt8: return static_cast<double>(static_cast<signed char>(word));
    case kUInt64: return static_cast<double>(bits);
    case kBool: return word != 0 ? 1 : 0;
    default: return static_cast<double>(word);
  }
}

constexpr double kLargestDouble = 0x1.FFFFFFFFFFFFFp1023;

MSPROBE_ANYWHERE inline double magnitude(double x) { return x < 0 ? -x : x; }  // of a NaN a NaN
MSPROBE_ANYWHERE inline bool is_finite(double x) { return magnitude(x) <= kLargestDouble; }

// ------------------------------------------------------------------------------------ what is asked, and
// found

/// What is wanted of a tensor.
enum Wanted : Word {
  kSketches = 1,   // digest and sketch
  kPowers = 2,     // sums of |x| and x^4
  kCounts = 4,     // elements that are zero, small, and above bounds
  kAbsolutes = 8,  // of a complex tensor: minimum, maximum and sum of the magnitudes
  kRaw = 16,       // the bits of the only part of a tensor, in the place of the sum of imaginary parts
  kPairs = 32,     // the tensor beside another one of the same shape, in place of all that
  kSigns = 64      // a bit of each element, set where it is greater than zero, in place of all that
};

constexpr Word kBounds = 8;  // at once

/// What is found, one word of 64 bits each: of doubles their bits. Sums, minimum and maximum are those of the
/// finite elements.
enum Field : Word {
  kSum,
  kSquares,  // of |x|
  kMin,
  kMax,
  kImaginary,  // the sum of the imaginary parts, with kAbsolutes of both; kSum has that of the real parts
  kAbsolute,
  kFourth,
  kSketch,
  kDigest = kSketch + position::kLanes,
  kNaN,  // a complex element counts once
  kPosInf,
  kNegInf,
  kZeros,
  kSmall,
  kAbove,  // each of the bounds
  kFields = kAbove + kBounds,
  kRawBits = kImaginary
};

/// What is found of two tensors x and y. Sums are of what is finite, products and differences of pairs of
/// which both are.
enum PairField : Word {
  kLeftSquares,
  kRightSquares,
  kLeastSize,  // the smallest and the largest |x| of a finite x
  kLargestSize,
  kDot,
  kDistance,    // the sum of (x - y)^2
  kLeastRatio,  // of max(|x|, floor) / max(|y|, floor)
  kLargestRatio,
  kLeastProduct,  // of x y, at most 0
  kAgree,         // pairs of the same sign, of opposite signs
  kDisagree,
  kLeftNotFinite,
  kRightNotFinite,
  kOneSidedNaN,
  kPairFields
};

enum class Join { kAdd, kLeast, kMost, kCount };

MSPROBE_ANYWHERE constexpr Join join_of(Word wanted, Word field) {
  if ((wanted & kPairs) != 0) {
    if (field == kLeastSize || field == kLeastRatio || field == kLeastProduct) return Join::kLeast;
    if (field == kLargestSize || field == kLargestRatio) return Join::kMost;
    return field >= kAgree ? Join::kCount : Join::kAdd;
  }
  if (field == kMin) return Join::kLeast;
  if (field == kMax) return Join::kMost;
  return field >= kDigest ? Join::kCount : Join::kAdd;
}

MSPROBE_ANYWHERE constexpr Word fields_of(Word wanted) {
  if ((wanted & kSigns) != 0) return 0;
  return (wanted & kPairs) != 0 ? static_cast<Word>(kPairFields) : static_cast<Word>(kFields);
}

/// What joins with anything without changing it.
MSPROBE_ANYWHERE constexpr Long nothing(Join join) {
  if (join == Join::kLeast) return 0x7FF0000000000000ULL;  // infinity
  return join == Join::kMost ? 0xFFF0000000000000ULL : 0;
}

MSPROBE_ANYWHERE inline Long joined(Join join, Long a, Long b) {
  if (join == Join::kCount) return a + b;
  const double x = as_double(a);
  const double y = as_double(b);
  if (join == Join::kAdd) return as_long(x + y);
  return join == Join::kLeast ? (y < x ? b : a) : (y > x ? b : a);
}

// -------------------------------------------------------------------------------------- what one thread
// finds

MSPROBE_ANYWHERE inline double root_of(double x) {
#ifdef MSPROBE_ON_DEVICE
  return sqrt(x);
#else
  return __builtin_sqrt(x);
#endif
}

/// |x + yi|, without running over on the way.
MSPROBE_ANYWHERE inline double magnitude(double x, double y) {
  const double a = magnitude(x) > magnitude(y) ? magnitude(x) : magnitude(y);
  const double b = magnitude(x) > magnitude(y) ? magnitude(y) : magnitude(x);
  if (b == 0) return a;
  const double ratio = b / a;
  return a * root_of(1 + ratio * ratio);
}

/// What is not finite of the elements that a thread has seen.
struct NotFinite {
  Word nan = 0;
  Word pos_inf = 0;
  Word neg_inf = 0;

  MSPROBE_ANYWHERE void add(double x, double y) {
    const double infinity = as_double(nothing(Join::kLeast));
    if (x != x || y != y) {
      ++nan;
    } else if (x == infinity || y == infinity) {
      ++pos_inf;
    } else {
      ++neg_inf;
    }
  }
};

/// What is counted on request.
struct Counts {
  Word zeros = 0;
  Word small = 0;
  Word above[kBounds] = {};

  /// A NaN is neither small nor above anything.
  MSPROBE_ANYWHERE void add(double x, double size, double limit, const float* bounds, Word bound_count) {
    zeros += size == 0;
    small += size < limit;
    MSPROBE_UNROLLED
    for (Word b = 0; b < kBounds; ++b) {
      if (b < bound_count) above[b] += x > bounds[b];
    }
  }
};

/// Sums over elements that are taken one by one, in double.
struct Sums {
  double sum = 0;
  double squares = 0;
  double min = as_double(nothing(Join::kLeast));
  double max = as_double(nothing(Join::kMost));
  double imaginary = 0;
  double absolute = 0;
  double fourth = 0;

  /// One finite element x + yi; real ones have no y.
  MSPROBE_ANYWHERE void add(double x, double y, Word wanted) {
    const double square = x * x + y * y;
    const double size = magnitude(x, y);
    const double shown = (wanted & kAbsolutes) != 0 ? size : x;
    sum += shown;
    imaginary += (wanted & kAbsolutes) != 0 ? x + y : y;
    squares += square;
    min = shown < min ? shown : min;
    max = shown > max ? shown : max;
    if ((wanted & kPowers) == 0) return;
    absolute += size;
    fourth += square * square;
  }
};

/// Of the pairs that a thread has seen.
struct FoundPairs {
  double sums[kAgree] = {0, 0, as_double(nothing(Join::kLeast)), as_double(nothing(Join::kMost)), 0, 0, 1,
                         1, 0};
  Long counts[kPairFields - kAgree] = {};

  /// `floor`: what ratios take magnitudes below for.
  MSPROBE_ANYWHERE void add(double x, double y, double floor) {
    if (is_finite(x)) {
      const double size = magnitude(x);
      sums[kLeftSquares] += x * x;
      sums[kLeastSize] = size < sums[kLeastSize] ? size : sums[kLeastSize];
      sums[kLargestSize] = size > sums[kLargestSize] ? size : sums[kLargestSize];
    }
    if (is_finite(y)) sums[kRightSquares] += y * y;
    if (is_finite(x) && is_finite(y)) {
      sums[kDot] += x * y;
      sums[kDistance] += (x - y) * (x - y);
      sums[kLeastProduct] = x * y < sums[kLeastProduct] ? x * y : sums[kLeastProduct];
    }
    counts[kLeftNotFinite - kAgree] += !is_finite(x);
    counts[kRightNotFinite - kAgree] += !is_finite(y);
    counts[0] += (x > 0 && y > 0) || (x < 0 && y < 0);
    counts[kDisagree - kAgree] += (x > 0 && y < 0) || (x < 0 && y > 0);
    counts[kOneSidedNaN - kAgree] += (x != x) != (y != y);
    const double a = magnitude(x) < floor ? floor : magnitude(x);
    const double b = magnitude(y) < floor ? floor : magnitude(y);
    const double ratio = a / b;  // a NaN is no ratio
    sums[kLeastRatio] = ratio < sums[kLeastRatio] ? ratio : sums[kLeastRatio];
    sums[kLargestRatio] = ratio > sums[kLargestRatio] ? ratio : sums[kLargestRatio];
  }
};

}  // namespace msprobe::device

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Calls that are made a second time with a small change, and what the change tells of them
/// (docs/perturb.md). The free benchmark of mindstudio-probe judges by free_benchmark.h.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/export.h"
#include "msprobe/operators.h"
#include "msprobe/tensor_view.h"

namespace msprobe::perturb {

// ---- changing an input

/// What is changed before a call is made again.
enum class Mode : std::uint8_t {
  kImprovePrecision,  // 16-bit floats are float32
  kAddNoise,          // noise_of() is added to every element that is larger than its root
  kBitNoise,          // the last bit of every normal element is the other one
  kChangeValue,       // the first and the last element change places
  kNoChange,
  kToCpu,  // on the CPU, and 16-bit floats are float32
};

/// As in config.json: "improve_precision", ...
MSPROBE_API std::string_view mode_name(Mode mode) noexcept;
MSPROBE_API std::optional<Mode> mode_named(std::string_view name) noexcept;

/// float64, float32, float16 and bfloat16: what the functions below work on.
constexpr bool is_supported(DType dtype) noexcept { return dtype <= DType::kBFloat16; }

/// What add_noise adds: 1e-16, 1e-8, 1e-6, 1e-4 for float64, float32, float16, bfloat16. An input whose
/// largest element is smaller is not changed. 0 for other dtypes.
MSPROBE_API double noise_of(DType dtype) noexcept;

/// Each copies `count` contiguous elements of a supported dtype from `from` to `to`, which may be the same,
/// with a change, and returns the largest magnitude in `from` (NaN left out, 0 for none). Thread-safe.
///
/// add_noise: x + noise_of(dtype) where |x| > sqrt(noise_of(dtype)).
MSPROBE_API double add_noise(DType dtype, const void* from, void* to, std::size_t count);
/// flip_last_bits: the last bit of x is the other one where |x| is finite and above the smallest normal
/// number.
MSPROBE_API double flip_last_bits(DType dtype, const void* from, void* to, std::size_t count);
/// add_random_ulps: 2^`power` units in the last place more or less in magnitude, by a random sign that
/// depends on `seed` and the element's position `first` + i alone; more where less would lead past 0. 0, NaN,
/// Inf and what would become infinite stay what they are. `power` is 0 ... 51.
MSPROBE_API double add_random_ulps(DType dtype, const void* from, void* to, std::size_t count,
                                   std::uint64_t seed, std::uint64_t first = 0, int power = 0);

// ---- comparing two results

/// Two results, element by element; a, b: |original| and |perturbed|, each at least `floor`.
struct MSPROBE_API Ratios {
  double largest = 1;        // max(a / b), at least 1; in the arithmetic of the dtype
  double smallest = 1;       // min(a / b), at most 1
  double least_product = 0;  // min(original * perturbed), at most 0
  std::int64_t one_sided_nan = 0;

  void add(const Ratios& other) noexcept;
  /// max(a / b, b / a), as mindstudio-probe comes to it. Infinite where an element vanished altogether.
  double either_way() const noexcept;
};

/// Whether there is a ratios() of these dtypes: both are the same supported one, or the second is float32.
constexpr bool has_ratios(DType original, DType perturbed) noexcept {
  return is_supported(original) &&
         (original == perturbed || (perturbed == DType::kFloat32 && original != DType::kFloat64));
}

/// Of a supported dtype.
double largest_number(DType dtype) noexcept;

/// A number of a supported dtype, found in a wider one: rounded to it. Its largest number stands for what
/// lies beyond.
MSPROBE_API double in_dtype(double value, DType dtype) noexcept;

/// Of `count` contiguous elements. A ratio of NaN counts as 1, an infinite one as the largest number of
/// `perturbed_dtype`, in which the ratios are.
MSPROBE_API Ratios ratios(DType original_dtype, const void* original, DType perturbed_dtype,
                          const void* perturbed, std::size_t count, double floor);

/// How far a result is from that of the CPU, in float64.
struct MSPROBE_API Distance {
  double absolute = 0;    // max |o - c| where |o| < 1
  double relative = 0;    // max |o - c| / |o| where |o| >= 1
  double signed_sum = 0;  // of o - c where |o| < 1, and of (o - c) / |o| elsewhere
  bool has_nan = false;   // in one of the two
  std::int64_t count = 0;
  bool other_is_finite = true;  // no Inf and no NaN in the result of the CPU

  void add(const Distance& other) noexcept;
};

/// Of `count` contiguous elements, any dtypes.
MSPROBE_API Distance distance(DType original_dtype, const void* original, DType cpu_dtype, const void* cpu,
                              std::size_t count);

/// Elements below this are taken for it in ratios: the root of noise_of(dtype), 1e-3 in the backward, 2e-5
/// for what is no floating point number.
MSPROBE_API double ratio_floor(DType perturbed_dtype, bool backward) noexcept;

// ---- what calls make of rounding

/// Bits of the significand of a supported dtype: 53, 24, 11, 8. 0 for others.
constexpr int digits_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::kFloat64: return 53;
    case DType::kFloat32: return 24;
    case DType::kFloat16: return 11;
    case DType::kBFloat16: return 8;
    default: return 0;
  }
}

/// What a function computes, as far as it matters for its sensitivity.
using Arithmetic = operators::Condition;

/// Of "Torch.sub", "Tensor.__truediv__", "Functional.softmax", ...
MSPROBE_API Arithmetic arithmetic_of(std::string_view api);

/// How far a tensor moved, over the elements that are finite before and after.
struct MSPROBE_API Change {
  double difference = 0;                                   // sum of squares
  double size = 0;                                         // sum of squares before
  double largest = 0;                                      // magnitude before
  double least = std::numeric_limits<double>::infinity();  // magnitude before
  std::int64_t count = 0;
  std::int64_t not_finite = 0;  // before

  void add(const Change& other) noexcept;
  /// In the L2 norm; NaN where there is nothing to be relative to.
  double relative() const noexcept;
};

/// Of `count` contiguous elements, real dtypes.
MSPROBE_API Change change(DType dtype, const void* before, const void* after, std::size_t count);

/// What was measured of a call. NaN: was not.
struct CallMeasure {
  Arithmetic arithmetic = Arithmetic::kOther;
  DType dtype = DType::kFloat32;  // the coarsest of what goes in and comes out
  /// Relative change of the results over that of the arguments, when these are rounded otherwise. The largest
  /// of several tries, and of several results.
  double forward = std::numeric_limits<double>::quiet_NaN();
  /// The same of the gradients of the arguments.
  double backward = std::numeric_limits<double>::quiet_NaN();
  /// What the operator's condition number allows for `forward`.
  double condition = std::numeric_limits<double>::quiet_NaN();
  /// Share of the rows of a softmax in which all but one probability are 0.
  double saturated = 0;
  double least_argument = std::numeric_limits<double>::quiet_NaN();  // magnitude: of a logarithm, a divisor
  double largest_argument = 0;                                       // magnitudes that are finite
  double largest_result = 0;
  double largest_gradient = 0;
  std::int64_t arguments_not_finite = 0;
  std::int64_t results_not_finite = 0;
  std::int64_t gradients_not_finite = 0;  // of those that come in: 0
};

/// Why a call is fragile.
enum class FragilityKind : std::uint8_t {
  kOverflow,      // infinities or NaN out of finite numbers
  kNearOverflow,  // less than 2 bits to the largest number of the dtype
  kNearZero,      // a logarithm of, or a quotient by, next to nothing
  kSaturated,     // a softmax over large numbers
  kCancellation,  // a small sum of large terms
  kUnstable,      // far more than its condition number allows
  kAmplification  // any other
};

/// "overflow", "near_overflow", "near_zero", "saturated_softmax", "cancellation", "unstable",
/// "amplification".
MSPROBE_API std::string_view fragility_name(FragilityKind kind) noexcept;

struct Fragility {
  FragilityKind kind = FragilityKind::kAmplification;
  bool backward = false;
  double severity = 0;  // 0 ... 2; the worst first
  std::string reason;   // for a person
};

/// Bits that a call may lose of digits_of(dtype): half of them for float64 and float32, all but 3 and 2 for
/// float16 and bfloat16.
MSPROBE_API double most_lost_bits(DType dtype) noexcept;

/// Bits between `largest` and the largest number of the dtype; infinite for 0.
MSPROBE_API double overflow_margin(DType dtype, double largest) noexcept;

/// The worst that there is to say of a call; nothing: it is healthy.
MSPROBE_API std::optional<Fragility> judge(const CallMeasure& measure);

}  // namespace msprobe::perturb

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Calls that are made a second time with a small change, and what the change tells of them: the free
/// benchmark of mindstudio-probe (docs/formats/free_benchmark.md), and what calls make of rounding
/// (docs/perturb.md).

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

// ---- the rules of the free benchmark

/// Elements below this are taken for it in ratios: the root of noise_of(dtype), 1e-3 in the backward, 2e-5
/// for what is no floating point number.
MSPROBE_API double ratio_floor(DType perturbed_dtype, bool backward) noexcept;

/// What a pair of results is found to be.
struct MSPROBE_API Finding {
  enum class Kind : std::uint8_t { kConsistent, kSymbolFlipping, kRatio, kFar };
  Kind kind = Kind::kConsistent;
  double ratio = 1;  // kRatio, and what was measured of a consistent pair

  bool is_consistent() const noexcept { return kind == Kind::kConsistent; }
  /// The cell max_rel: "symbol_flipping", ratio - 1 as Python writes it, or empty.
  std::string max_rel() const;
};

/// `threshold`: the largest ratio that is consistent.
MSPROBE_API Finding judge(const Ratios& ratios, DType perturbed_dtype, bool backward, double threshold);
/// Against the CPU: within 2^-11, 2^-8, 2^-14 for float16, bfloat16, others, and not more than 1e-4 above it
/// in the mean (below it does not matter, as in mindstudio-probe).
MSPROBE_API Finding judge(const Distance& distance, DType original_dtype);

/// The largest ratio that counts as consistent: 1.002 for float16, 1.004 for bfloat16, 1.0002 for others, 1
/// for Mode::kNoChange.
MSPROBE_API double default_threshold(DType original_dtype, Mode mode) noexcept;

/// Thresholds that learn in the first steps of a training ("preheat"). Step 0 counts the calls of each
/// function; in the steps 1 ... `steps` some calls are compared with the CPU as well, and at the end of each
/// of these steps the threshold of a function and dtype moves. It begins at 2.05; when all were right on the
/// CPU, its distance from 1 doubles where a ratio was above it, and halves otherwise; when one was wrong, it
/// becomes the smallest ratio of those, for good. It is never below default_threshold(). Not thread-safe.
class MSPROBE_API Preheat {
 public:
  /// `steps`, `max_sample`: the keys preheat_step and max_sample.
  Preheat(std::int64_t steps, std::int64_t max_sample, Mode mode);
  ~Preheat();
  Preheat(const Preheat&) = delete;
  Preheat& operator=(const Preheat&) = delete;

  /// A call begins. Whether it is one of those that are compared with the CPU.
  bool begin_call(std::string_view api);
  /// Nothing is compared yet: step 0.
  bool only_counts() const noexcept { return step_ == 0; }
  double threshold(std::string_view api, DType dtype) const;
  void note(std::string_view api, DType dtype, double ratio, bool right_on_cpu);
  void end_step();

 private:
  struct Learnt;
  struct Calls {
    std::int64_t before = 0;  // in step 0
    std::int64_t now = 0;
  };
  std::int64_t steps_;
  std::int64_t max_sample_;
  Mode mode_;
  std::int64_t step_ = 0;
  std::map<std::string, Calls, std::less<>> calls_;
  std::map<std::pair<std::string, DType>, std::unique_ptr<Learnt>, std::less<>> learnt_;
};

/// One line of free_benchmark.csv.
struct Row {
  std::string api_name;  // "Torch.matmul.0.forward"
  Finding finding;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  std::optional<std::size_t> output_index;  // of a result that is a list or a tuple
};

/// free_benchmark.csv of one step and rank, in the form of mindstudio-probe. The file appears with the first
/// row, and every row is in it when add() returns: a process that is killed leaves whole lines. A file that
/// is there already is replaced. Not thread-safe.
class MSPROBE_API RowFile {
 public:
  RowFile(std::filesystem::path path, std::int64_t rank, Mode mode, bool backward, std::int64_t step);
  ~RowFile();
  RowFile(const RowFile&) = delete;
  RowFile& operator=(const RowFile&) = delete;

  /// Throws IoError.
  void add(const Row& row);
  std::size_t rows() const noexcept { return rows_; }

 private:
  std::filesystem::path path_;
  std::int64_t rank_;
  Mode mode_;
  bool backward_;
  std::int64_t step_;
  std::size_t rows_ = 0;
  std::int64_t size_ = 0;  // of the file
  int descriptor_ = -1;
};

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

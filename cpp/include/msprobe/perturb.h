// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Calls that are made a second time with a small change, and what the change tells of them: the free
/// benchmark of mindstudio-probe (docs/formats/free_benchmark.md), and the size of rounding.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/dtype.h"
#include "msprobe/export.h"

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
/// add_random_ulps: one unit in the last place more or less in magnitude, by a random sign that depends on
/// `seed` and the element's position `first` + i alone. 0, NaN, Inf and the largest number stay what they
/// are.
MSPROBE_API double add_random_ulps(DType dtype, const void* from, void* to, std::size_t count,
                                   std::uint64_t seed, std::uint64_t first = 0);

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

}  // namespace msprobe::perturb

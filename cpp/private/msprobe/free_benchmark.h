// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The rules and the file of mindstudio-probe's free benchmark (docs/formats/free_benchmark.md).

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

#include "msprobe/export.h"
#include "msprobe/perturb.h"
#include "msprobe/tensor_view.h"

namespace msprobe::perturb {

// ---- the rules of the free benchmark

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
/// function, n. In the steps s = 1 ... `steps` - 1 the calls number s, s + `steps`, s + 2 `steps`, ...
/// (modulo n) are compared with the CPU as well, min(ceil(n / `steps`), `max_sample`) of them, and behind the
/// last the threshold of the function moves, for each dtype. It begins at 2.05. When all were right on the
/// CPU, its distance from 1 doubles where a ratio was above it, and halves otherwise. When all with a ratio
/// from some number on were wrong, and no others, it becomes that number if it is smaller, for good. It is
/// never below default_threshold(). Not thread-safe.
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
  /// Of such a call: the largest ratio of its results, and the dtype of the first.
  void note(std::string_view api, DType dtype, double ratio, bool right_on_cpu);
  void end_step();

 private:
  struct Learnt;
  struct Calls {
    std::int64_t first = 0;  // in step 0
    std::int64_t now = 0;
    std::int64_t sampled = 0;  // of them
  };
  std::int64_t samples_of(const Calls& calls) const;
  void learn(Learnt& learnt, DType dtype) const;

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

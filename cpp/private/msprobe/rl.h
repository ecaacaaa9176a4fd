// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Key data of reinforcement learning: what a run saves under keys (prompts, responses, rewards, log
/// probabilities), on disk; and the comparison of two such records. File formats: docs/formats/rl.md.

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/export.h"
#include "msprobe/tensor_view.h"

namespace msprobe::rl {

using Shape = std::vector<std::int64_t>;

// ---- recording

/// A tensor in host memory. Only read during the call.
struct NamedTensor {
  std::string_view name;  // its number in a list, its key in a dict; empty for a tensor alone
  TensorView view;
};

/// What is saved under a key at one moment.
struct Value {
  enum class Form : std::uint8_t { kTensor, kList, kDict };

  std::string_view key;
  std::int64_t step = 0;
  int rank = 0;
  std::optional<std::int64_t> micro_step;  // nullopt: no folder of its own
  Form form = Form::kTensor;
  std::span<const NamedTensor> tensors;  // exactly one for kTensor
};

/// Writes values: {dump_path}/data/{key}/step{S}/rank{R}/micro_step{M}/ with a .npy for each tensor and, when
/// these are there, a .json with their statistics. Each file is complete or absent.
///
/// A value is with the system when save() returns: a process that is killed then, or ends without saying so,
/// has lost nothing of it. Thread-safe, also in a forked child.
class MSPROBE_API Writer {
 public:
  /// Creates {dump_path} at once, so that a path that cannot be written is an IoError here and now.
  explicit Writer(std::filesystem::path dump_path);

  /// Throws InvalidArgument for a bad shape, IoError for what cannot be written.
  void save(const Value& value) const;

 private:
  std::filesystem::path dump_path_;
};

// ---- what a record holds

/// Where an array was saved.
struct Place {
  std::int64_t step = 0;
  std::int64_t rank = 0;
  std::int64_t micro_step = 0;  // 0: no folder names one
  std::string entry;            // its number in a list or its key in a dict; empty for a tensor alone

  bool operator==(const Place&) const = default;
  /// By step, rank, micro-step and entry: nothing, then numbers by their value, then other keys.
  MSPROBE_API bool operator<(const Place& other) const;
};

/// Names of the folders below `record`/data, sorted. Throws IoError; InvalidArgument when there is no folder
/// `data`.
MSPROBE_API std::vector<std::string> keys(const std::filesystem::path& record);

struct SavedArray {
  Place place;
  std::filesystem::path file;
};

/// The arrays of one key, in order of their places; empty when the record does not have the key. Folders and
/// files of other names are passed by; links are not followed. Throws IoError.
MSPROBE_API std::vector<SavedArray> arrays(const std::filesystem::path& record, const std::string& key);

// ---- comparing

/// Two arrays next to each other. Errors are in float32 where both are floating point of at most 32 bits or
/// small integers, else in float64; integers of 64 bits are told apart exactly.
///
/// Two elements are the same when they are equal, or both NaN. The relative error is |a - b| / max(|a|, |b|),
/// and 0 where both are 0; that of an infinity next to a number is 1, next to the other infinity 2. A NaN
/// next to a number is within no share, and both maxima are NaN then.
struct Difference {
  std::int64_t count = 0;
  std::int64_t same = 0;
  std::int64_t within_thousandth = 0;  // relative error <= 0.001
  std::int64_t within_hundredth = 0;
  std::int64_t within_tolerance = 0;
  double max_absolute = 0;
  double max_relative = 0;
  // In C order: the first pair that is not the same, and the first one beyond the tolerance.
  std::optional<std::int64_t> first_mismatch;
  std::optional<std::int64_t> first_beyond;
};

/// Which pairs count as near enough: |a - b| <= absolute + relative * max(|a|, |b|).
struct Tolerance {
  double relative = 0.01;
  double absolute = 1e-6;
};

/// Of two tensors of the same shape. Complex tensors: InvalidArgument, as a bad shape is.
MSPROBE_API Difference compare(const TensorView& reference, const TensorView& target,
                               Tolerance tolerance = {});

/// Two arrays that were saved at the same place.
struct Row {
  Place place;
  Shape reference_shape;
  Shape target_shape;
  Shape compared;  // the part that both have; shapes of different length are compared as flat arrays
  DType reference_dtype = DType::kFloat32;
  DType target_dtype = DType::kFloat32;
  Difference difference;
  /// Elements of the first pair beyond the tolerance, else of the first mismatch; 0 without one.
  double reference_value = 0;
  double target_value = 0;
  std::string problem;  // why they could not be compared; empty: they were
};

struct KeyComparison {
  std::vector<Row> rows;  // in order of their places
  std::vector<Place> reference_only;
  std::vector<Place> target_only;
};

/// Told of the arrays done and all of them; returns false to end the work.
using Progress = std::function<bool(std::uint64_t, std::uint64_t)>;

struct CompareOptions {
  /// Integers and Booleans on both sides must be the same.
  Tolerance tolerance = {};
  unsigned threads = 0;  // 0: all cores
  Progress progress = {};
};

/// Compares what two records have under a key. Files are read piece by piece: memory grows with their number
/// alone, and the result does not depend on the number of threads. A file that cannot be read is a row with a
/// problem. Throws IoError for a folder that cannot be read; InvalidArgument when `progress` ends it.
MSPROBE_API KeyComparison compare_key(const std::filesystem::path& reference,
                                      const std::filesystem::path& target, const std::string& key,
                                      const CompareOptions& options = {});

/// Writes the rows that were compared as mindstudio-probe does: a sheet with 12 columns. By the ending of
/// the path, .xlsx or .csv. Complete or absent. Throws IoError.
MSPROBE_API void write_table(const std::filesystem::path& path, const KeyComparison& comparison);

// ---- log probabilities of tokens

/// Borders of the intervals in which ratios of probabilities are counted: (-inf, b0], (b0, b1], ... (bn,
/// inf).
inline constexpr std::array<double, 8> kRatioBounds{0.5, 0.8, 0.9, 0.99, 1.01, 1.1, 1.25, 2.0};

/// A token whose log probabilities are far apart.
struct TokenDifference {
  Place place;
  std::int64_t sample = 0;  // all dimensions but the last, in C order; 0 in an array of one dimension
  std::int64_t token = 0;   // along the last dimension
  double reference = 0;
  double target = 0;
};

/// Log probabilities that two policies give to the same tokens, which the reference sampled: a rollout and
/// the training, or two runs. With d = target - reference for each token:
///
/// KL(reference || target) is estimated by k1, the mean of -d, and by k3, the mean of exp(d) - 1 - d, which
/// is never negative and has a smaller variance (J. Schulman, "Approximating KL Divergence", 2020). The ratio
/// is exp(d); the effective sample share is (sum of ratios)^2 / (tokens * sum of squares). All sums in
/// float64.
struct LogProbComparison {
  std::int64_t tokens = 0;      // that were compared; of these:
  std::int64_t beyond = 0;      // |d| above the tolerance, or NaN on one side
  std::int64_t not_finite = 0;  // d is NaN or infinite; not in the sums
  std::int64_t masked = 0;      // left out, because the mask is 0 there
  double sum_absolute = 0;
  double max_absolute = 0;
  double sum_k1 = 0;
  double sum_k3 = 0;
  double sum_ratio = 0;
  double sum_squared_ratio = 0;
  double sum_probability_difference = 0;  // of |exp(target) - exp(reference)|
  double max_probability_difference = 0;
  double sum_reference = 0;  // of the probabilities, for their correlation
  double sum_target = 0;
  double sum_reference_squared = 0;
  double sum_target_squared = 0;
  double sum_reference_target = 0;
  std::array<std::int64_t, kRatioBounds.size() + 1> ratio_counts{};
  std::optional<TokenDifference> first;  // beyond the tolerance, in order of places
  std::optional<TokenDifference> worst;
  std::int64_t arrays = 0;          // pairs that were compared
  std::int64_t reference_only = 0;  // arrays without a counterpart
  std::int64_t target_only = 0;
  std::vector<std::string> problems;  // arrays that could not be compared, and why; at most 100
};

struct LogProbOptions {
  double tolerance = 0.1;  // of |d|
  std::string mask_key;    // of the reference: tokens where it is 0 are left out; empty: none are
  unsigned threads = 0;
  Progress progress = {};
};

/// Token by token: `reference_key` of one record next to `target_key` of another, or of the same. Where the
/// shapes differ, the part that both have. A mask that is not there, or of another shape, leaves out nothing.
/// Throws as compare_key().
MSPROBE_API LogProbComparison compare_log_probs(const std::filesystem::path& reference,
                                                const std::filesystem::path& target,
                                                const std::string& reference_key,
                                                const std::string& target_key,
                                                const LogProbOptions& options = {});

}  // namespace msprobe::rl

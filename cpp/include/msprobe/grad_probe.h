// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Gradient probe: what every optimizer step sees of the gradients, on disk; and the comparison of two such
/// records. File formats: docs/formats/grad_probe.md.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/error.h"
#include "msprobe/export.h"
#include "msprobe/stats.h"
#include "msprobe/tensor_view.h"
#include "msprobe/thread_pool.h"

namespace msprobe::grad_probe {

// ---- recording

/// How much is kept of a gradient.
enum class Level : std::uint8_t {
  kL0,  // max, min, norm, shape and a checksum
  kL1,  // max, min, norm, shape and a direction file (one sign per element)
  kL2,  // as L1, and the distribution over intervals
};

/// A border between two intervals of the distribution.
struct Bound {
  double value;       // compared as float32
  std::string label;  // how the csv header spells it, e.g. "-0.1" or "0"
};

/// The files of a record.
enum class Layout : std::uint8_t {
  kNpy,     // that of mindstudio-probe: a csv for each step, and an .npy for each parameter and step
  kPacked,  // one file for all steps, with one bit per sign
};

struct Options {
  std::filesystem::path dump_path;  // files go to {dump_path}/rank{rank}
  int rank = 0;
  Level level = Level::kL1;
  std::vector<Bound> bounds;  // ascending; used at L2
  Layout layout = Layout::kNpy;
  /// Packed: parameters whose gradients are the same in several ranks, and the rank that keeps their signs.
  /// Any other rank keeps a hash of them, so that it is seen where they are not the same after all.
  std::map<std::string, int, std::less<>> keepers;
  /// Measured steps wait in at most this much memory for the disk; beyond it record() waits. Nothing is
  /// dropped.
  std::size_t buffer_bytes = std::size_t{256} << 20;
};

/// A gradient in host memory. `name` and `view` are only read during the call.
struct Gradient {
  std::string_view name;
  TensorView view;
};

/// What is kept of one gradient; everything write_step() needs.
struct Measurement {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  bool fortran_order = false;       // `signs` are in column-major order
  stats::Summary summary;           // with crc32 at L0 and interval_counts at L2
  std::vector<std::uint8_t> signs;  // packed bits as SummaryOptions::signs; empty at L0
};

/// What to ask of the statistics for a gradient, and the row made of the answer. measure() is built on it;
/// who measures gradients elsewhere (on a device) uses it directly. Reads no element itself.
class MSPROBE_API MeasurementPlan {
 public:
  explicit MeasurementPlan(const Options& options);

  /// A row without its summary, with room for the signs, in the memory of `reused`. With `fortran_order` the
  /// statistics must be taken of the transposed tensor, whose memory is C-contiguous. `view.data` may be
  /// null.
  Measurement prepare(std::string_view name, const TensorView& view, Measurement reused = {}) const;

  /// The request that fits; it borrows from `measurement` and from this.
  stats::SummaryOptions request(Measurement& measurement) const;

  void complete(Measurement& measurement, stats::Summary summary) const;

 private:
  Level level_;
  std::vector<float> all_bounds_;  // as float32, where neighbours may fall together
  std::vector<float> bounds_;      // distinct; empty unless level L2
};

/// Measures gradients of host memory. A gradient that cannot be measured (complex at any level) is left out
/// and reported as a warning through the log; an empty one gives a row without max and min.
/// `reused`: rows that nobody needs any more (Writer::spare()); their memory becomes that of the new ones.
MSPROBE_API std::vector<Measurement> measure(std::span<const Gradient> gradients, const Options& options,
                                             ThreadPool* pool = nullptr,
                                             std::vector<Measurement> reused = {});

/// Writes measured steps, each as a whole.
///
/// Layout npy: behind the training thread; direction files first, the csv last, each complete or absent.
/// record() returns as soon as the step is queued and the one before it is on disk; when that takes longer
/// than a few milliseconds, it returns all the same as long as the buffer has room. So a killed process loses
/// the step being written, and steps behind it only where the disk is slower than training.
///
/// Layout packed: a step is appended to the one file before record() returns, since it is 1/32 of float32
/// gradients: a killed process loses no step that was recorded.
///
/// A failure to write (disk full, no permission) never throws into training: it is logged once per step by
/// the next record() or flush(), the step's partial files are removed, and later steps are tried again.
class MSPROBE_API Writer {
 public:
  /// Creates {dump_path}/rank{rank} at once, so that a path that cannot be written is an IoError here and
  /// now. InvalidArgument where it holds a record of the other layout.
  explicit Writer(Options options);
  /// Waits until everything is written.
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void record(std::int64_t step, std::vector<Measurement> measurements);

  /// The rows of a step that has been written, for measure(): fresh memory for the signs of a large model
  /// costs as much as reading its gradients. Empty when there are none, as in the first steps.
  std::vector<Measurement> spare();

  /// Waits until every recorded step is on disk. Returns the number of steps that could not be written so
  /// far. In a forked child, which has no writing thread, this and the destructor do nothing.
  std::int64_t flush();

  const Options& options() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Writes one step at once, on the calling thread, in the layout npy. Throws IoError.
MSPROBE_API void write_step(const Options& options, std::int64_t step,
                            std::span<const Measurement> measurements);

/// File name (without directory) of a parameter's direction file: `{name}.npy`. Characters that
/// cannot stand in a file name ('/', '%', control characters) are written as %XX; a name too long for the
/// file system is cut and gets a hash.
MSPROBE_API std::string direction_file_name(std::string_view name);

// ---- comparing

/// How far the signs of one parameter agree at one step.
struct Similarity {
  enum class State : std::uint8_t {
    kCompared,
    kAbsent,   // neither side has the parameter at this step
    kMissing,  // only one side has it, or a file is missing or damaged: `problem` says which
  };
  State state = State::kAbsent;
  std::int64_t equal = 0;
  std::int64_t count = 0;
  std::string problem;
  /// The larger of the L2 norms that the two csv files name; NaN: neither does.
  double norm = std::numeric_limits<double>::quiet_NaN();
  bool in_first = false;  // whether that side has the signs of the parameter at this step
  bool in_second = false;

  /// equal / count; 0 for an empty tensor, NaN when not compared.
  MSPROBE_API double value() const noexcept;
};

/// Two recorded ranks side by side.
struct Comparison {
  std::vector<std::int64_t> steps;           // ascending, those both sides have
  std::vector<std::int64_t> steps_of_first;  // ascending, all with signs, as the side counts them
  std::vector<std::int64_t> steps_of_second;
  std::vector<std::string> names;  // in the order of the smallest common step, then of first appearance
  std::vector<Similarity> cells;   // names.size() x steps.size(), row by row

  const Similarity& at(std::size_t name, std::size_t step) const { return cells[name * steps.size() + step]; }

  /// Element-weighted mean of one step over all compared parameters.
  MSPROBE_API Similarity summary(std::size_t step) const;
};

/// What comparisons of other ranks found: replicas have the same signs, which need to be read once.
class Agreements;
MSPROBE_API std::shared_ptr<Agreements> make_agreements();

struct CompareOptions {
  unsigned threads = 0;  // 0: all cores
  /// Step S of the second side is compared with step S + offset of the first one, and has its number: of a
  /// training that was resumed.
  std::int64_t offset = 0;
  std::shared_ptr<Agreements> agreements;  // null: none are kept
  /// Called now and then from the calling thread with parameters x steps done so far; return false to stop
  /// the work (compare() then throws InvalidArgument "cancelled").
  std::function<bool(std::size_t done, std::size_t total)> progress;
};

/// Compares the signs in two rank directories, each of any layout. What is wrong with single files becomes
/// part of the answer. Throws IoError when a directory cannot be read, and NothingToCompare when the two have
/// no step in common.
MSPROBE_API Comparison compare(const std::filesystem::path& rank_dir1, const std::filesystem::path& rank_dir2,
                               const CompareOptions& options = {});

/// Whether a rank directory has the statistics of any gradient. Throws IoError, and FormatError for files
/// that are damaged.
MSPROBE_API bool has_gradients(const std::filesystem::path& rank_dir);

/// Writes what a rank directory holds, whatever its layout, to {options.dump_path}/rank{options.rank} in the
/// layout of the options; level, bounds and keepers of the options do not matter. There and back again gives
/// the same bytes. Signs that another rank keeps are taken from there; what cannot be had is left out, with a
/// warning for each where `tells`. Returns the number of steps. Throws IoError, FormatError, and
/// InvalidArgument where there is a record already.
MSPROBE_API std::size_t convert(const std::filesystem::path& rank_dir, const Options& options,
                                bool tells = true);

/// The ranks R with a directory rankR on both sides, ascending. Throws IoError when a path is not a
/// directory, InvalidArgument when it is a symbolic link, and NothingToCompare when there are none.
MSPROBE_API std::vector<int> matched_ranks(const std::filesystem::path& path1,
                                           const std::filesystem::path& path2);

/// Whether no step of the record of a rank has a gradient. Throws IoError, and FormatError for a record that
/// is none.
MSPROBE_API bool is_empty_record(const std::filesystem::path& rank_dir);

/// The two sides have no rank, step or parameter in common. Python: also a RuntimeError, as mindstudio-probe
/// raises.
class MSPROBE_API NothingToCompare : public InvalidArgument {
 public:
  using InvalidArgument::InvalidArgument;
  ~NothingToCompare() override;
};

/// Writes similarities.csv: one row per parameter and a last one called summary, one column per step.
MSPROBE_API void write_similarities(const Comparison& comparison, const std::filesystem::path& path);

// ---- judging

/// The rule of mindstudio-probe's guide: below `first_step_least` at the first step, or a fall by more than
/// `largest_drop` against the step before, points to a problem. Signs of a gradient that is next to nothing
/// beside the others of its step (metrics::kNegligibleGradient) are those of rounding errors, and point to
/// none.
struct Rule {
  double first_step_least = 0.97;
  double largest_drop = 0.03;
};

struct Finding {
  enum class Kind : std::uint8_t { kLowAtFirstStep, kDrop, kMissing };
  Kind kind;
  std::string name;
  std::int64_t step;
  double similarity;   // NaN for kMissing
  double previous;     // of the compared step before; NaN at the first step
  std::string reason;  // one sentence
};

/// All places where the rule fires, ordered by step, then by how far the similarity fell: the first is the
/// one to look at. Empty when the two records agree.
MSPROBE_API std::vector<Finding> judge(const Comparison& comparison, const Rule& rule = {});

}  // namespace msprobe::grad_probe

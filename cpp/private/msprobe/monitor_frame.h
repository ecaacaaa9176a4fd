// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Monitor: what the tensors of a training are like, step by step. Here is what is measured of a tensor and
/// how measurements become numbers; monitor.h keeps and watches them.

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/export.h"
#include "msprobe/stats.h"
#include "msprobe/tensor_view.h"

namespace msprobe::monitor {

// ---- what is measured

/// What the pieces of a tensor contribute to its statistics: sums can be merged, so the value of a tensor
/// that lies in several processes is that of the whole. One NaN makes `sum` ... `fourth`, `min` and `max`
/// NaN.
struct Sums {
  std::int64_t count = 0;
  std::int64_t nan = 0;
  std::int64_t inf = 0;    // of both signs
  std::int64_t zeros = 0;  // +0 and -0
  std::int64_t small = 0;  // |x| < eps of the measurement
  double sum = 0;
  double absolute = 0;  // sum of |x|
  double squares = 0;   // sum of |x|^2
  double fourth = 0;    // sum of |x|^4
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();

  bool operator==(const Sums&) const = default;
};

/// Of a tensor that was summarised with `powers` and `small`; a complex one has no min and max (NaN).
MSPROBE_API Sums sums_of(const stats::Summary& summary);

/// Of two tensors next to each other: `squares` and `fourth` are the squares of left and right, `sum` their
/// product, `absolute` the squared distance, `small` the balance of signs. They merge as those of a tensor
/// do.
MSPROBE_API Sums sums_of(const stats::PairSums& pair);

/// Adds another piece of the same tensor, or another tensor of the same group.
MSPROBE_API void merge(Sums& whole, const Sums& part);

/// Sums as numbers that processes can add up, and extremes of which they can take the largest: two
/// collectives merge all tensors of all processes. A process without a piece contributes neutral().
inline constexpr std::size_t kSummed = 9;
inline constexpr std::size_t kExtremes = 2;
MSPROBE_API void pack(const Sums& sums, std::span<double, kSummed> summed,
                      std::span<double, kExtremes> extremes);
MSPROBE_API Sums unpack(std::span<const double, kSummed> summed, std::span<const double, kExtremes> extremes);

// ---- measurements of a step

/// What a row is about.
enum class Kind : std::uint8_t {
  kTensor,  // the elements of a tensor
  kPair,    // two tensors next to each other, as stats::PairSums has them
  kCounts,  // how often each of several things happened, as the tokens of each expert
};

/// Something that was measured.
struct Row {
  Kind kind = Kind::kTensor;
  std::uint32_t label = 0;        // what it is, a number that the user of the frame chooses
  std::int32_t micro_step = -1;   // -1: it has none
  std::uint32_t call = 0;         // when it was measured, as CallCounter counts
  bool missing = false;           // there was no tensor: a gradient that is None
  DType dtype = DType::kFloat32;  // of the tensor
  std::vector<std::int64_t> shape;
  Sums sums;                   // of a pair: as sums_of(PairSums) has it
  double factor = 1;           // of numbers that are still to come, see Frame::scale()
  std::vector<double> counts;  // kCounts only
  double capacity = 1.25;      // of one thing, as a multiple of the mean of the counts
  std::vector<std::pair<std::string, double>>
      given;  // numbers made elsewhere: those of an op win over the sums

  bool has_no_dimensions() const { return !missing && shape.empty(); }
};

/// A row for a single number, as if it were a tensor without dimensions.
MSPROBE_API Row row_of_value(std::uint32_t label, double value, double eps);

/// Numbers the measurements of a step. Thread-safe.
class CallCounter {
 public:
  std::uint32_t next() noexcept { return next_.fetch_add(1, std::memory_order_relaxed); }
  void reset() noexcept { next_.store(0, std::memory_order_relaxed); }

 private:
  std::atomic<std::uint32_t> next_{0};
};

/// Adds what was measured of another piece, or at another call; rows of one kind.
MSPROBE_API void merge(Row& whole, const Row& part);

class Frame;

/// Numbers of rows that are still on a device; who measures there has one for each frame.
struct Pending {
  virtual ~Pending() = default;
  /// Lets them come; waits for nothing.
  virtual void bring() = 0;
  /// Fills the rows. Waits for what has not come; never throws.
  virtual void complete(Frame& frame) = 0;
};

/// What is measured together, in the order in which it came. Thread-safe but for rows().
class MSPROBE_API Frame {
 public:
  /// What a second measurement of the same label and micro step does.
  enum class Again : std::uint8_t { kReplaces, kMerges };
  explicit Frame(Again again = Again::kReplaces) : again_(again) {}

  void add(Row row);
  /// Gives a row that was added before its numbers were known these; `place` as position() gave it then.
  void fill(std::size_t place, const Sums& sums);
  /// Where the row of this label and micro step stands; npos: nowhere.
  std::size_t position(std::uint32_t label, std::int32_t micro_step) const;
  static constexpr std::size_t npos = static_cast<std::size_t>(-1);

  /// What rows of this frame wait for; `make` makes it where nothing waits yet.
  Pending& pending(const std::function<std::unique_ptr<Pending>()>& make);
  /// Whether no row waits for its numbers.
  bool is_complete() const;
  /// Lets all numbers come; waits for nothing.
  void bring();
  /// Fills all rows; waits for what has not come.
  void complete();
  /// Gives away all rows, with what they wait for: this frame is that of the next step then.
  std::shared_ptr<Frame> take();

  /// The rows; no other call may run meanwhile.
  const std::vector<Row>& rows() const noexcept { return rows_; }
  std::size_t size() const;
  void clear();
  /// Multiplies what was measured of these labels, and what is still to come of it: the tensors were larger
  /// by 1 / `factor`, which is above 0.
  void scale(std::span<const std::uint32_t> labels, double factor);
  /// Numbers the row of this label and micro step anew, if there is one.
  void set_call(std::uint32_t label, std::int32_t micro_step, std::uint32_t call);
  /// Puts the rows in the ascending order of `key`, equal ones as they were.
  void sort(const std::function<std::size_t(const Row&)>& key);

 private:
  mutable std::mutex mutex_;
  Again again_;
  std::vector<Row> rows_;
  std::vector<std::vector<std::pair<std::int32_t, std::uint32_t>>> places_;  // by label: micro step and row
  std::unique_ptr<Pending> pending_;                                         // null: nothing waits
};

// ---- numbers

/// A number made of a row. Adding one is a row in the table metrics() and a test.
struct Metric {
  Kind kind;
  std::string_view name;
  std::string_view formula;
  std::string_view unit;    // "" for the unit of the tensor's elements
  std::string_view source;  // where the idea is from; "" for what needs none
  bool integral;            // to be shown without decimals
  /// NaN: not defined, as for an empty tensor. `nans` and `zeros` are defined where others are NaN.
  double (*value)(const Row&);
};
MSPROBE_API std::span<const Metric> metrics() noexcept;
/// Null: there is none of this name.
MSPROBE_API const Metric* find_metric(Kind kind, std::string_view name) noexcept;

/// What stands for the labels of rows. Thread-safe.
struct Label {
  int stage = 0;  // the part of a model that is split for a pipeline
  std::string name;
  std::uint32_t group = 0;  // of labels that belong together: of one quantity, of one module
};

class MSPROBE_API Labels {
 public:
  /// The number of a new label.
  std::uint32_t add(Label label);
  /// Throws InvalidArgument for a number that was not given out.
  Label at(std::uint32_t label) const;
  std::vector<Label> all() const;
  std::size_t size() const;

 private:
  mutable std::mutex mutex_;
  std::vector<Label> labels_;
};

}  // namespace msprobe::monitor

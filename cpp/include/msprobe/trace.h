// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What an adapter of a framework writes of a training step: records of calls, made of elements, which are
/// tensors by their statistics and other values as they are. A dump::Session (msprobe/dump.h) takes
/// them.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/export.h"
#include "msprobe/stats.h"
#include "msprobe/tensor_view.h"
#include "msprobe/thread_pool.h"

namespace msprobe::trace {

/// What two dumps allow to compare.
enum class Mode : std::uint8_t {
  kRealData,    // task tensor: the elements, from the files in dump_tensor_data
  kStatistics,  // maximum, minimum, mean and L2 norm
  kMd5,         // checksums
  kStructure    // task structure: names and places, no data
};

// ---------------------------------------------------------------------------------------------- one tensor

/// The four numbers of a tensor in a record, in the form the file format has for them.
struct Statistics {
  enum class Form : std::uint8_t {
    kNone,     // all null: empty tensors, meta tensors, tensors without readable memory
    kFloats,   // four numbers that float32 holds exactly
    kDoubles,  // four numbers in double: 0-d float64
    kNoNorm,   // max, min, mean in double, norm null: complex tensors, of the absolute values
    kBool,     // max (any), min (all), mean and norm null
    kInteger,  // 0-d integers: `integer` for all four
    kUnsigned  // as kInteger, for uint64
  };
  Form form = Form::kNone;
  double max = 0;
  double min = 0;
  double mean = 0;
  double norm = 0;
  std::int64_t integer = 0;
  std::int64_t nan_count = 0;
  std::int64_t inf_count = 0;
  std::optional<std::uint32_t> checksum;
  std::string sketch;  // as its bytes; empty: none (0-d tensors, devices without a kernel, not wanted)
};

/// What a tensor or number holds, from harmless to bad: infinities may be meant, as those of a mask; a NaN
/// never is.
enum class Badness : std::uint8_t { kGood, kInfinite, kNan };

/// What is measured beside the statistics.
struct Measures {
  bool checksum = false;  // the CRC-32 of the elements, of the equal float32 tensor for bfloat16 and fp8
  bool sketch = true;     // digest and sketch
};

/// Measures a tensor by the rules of the format (docs/formats/dump.md, "Statistics"): numbers rounded to the
/// tensor's own dtype (integers and float64: to float32), 0-d tensors by their value, complex ones by their
/// absolute values. Thread-safe.
MSPROBE_API Statistics measure(const TensorView& view, const Measures& measures, ThreadPool* pool = nullptr);

/// In which precision `Norm` is written: on the CPU that of the tensor's dtype, on devices float32 at least,
/// as mindstudio-probe has it there.
enum class NormIn : std::uint8_t { kDType, kFloat32 };

/// The same from a summary made elsewhere (on a device): of a tensor that is not 0-d, or complex; of a
/// complex one with minimum, maximum and sum of its magnitudes. `checksum` as it is in the summary.
MSPROBE_API Statistics statistics_of(const stats::Summary& summary, DType dtype,
                                     NormIn norm = NormIn::kDType);

/// A tensor as it is recorded.
struct TensorElement {
  std::optional<DType> dtype;   // nullopt: `dtype_text` names it
  std::string_view dtype_text;  // as the file shall have it
  std::span<const std::int64_t> shape;
  bool requires_grad = false;
  Statistics statistics;
  std::string_view data_name;   // file with the elements, or empty
  std::string_view numpy_type;  // not empty: a numpy.ndarray of this dtype
  /// Of a local shard of a DTensor: where it lies, one object as an ElementWriter collected it. Else empty.
  std::string_view placement;
};

// -------------------------------------------------------------------------------------------- element trees

/// Identifies a place in an element tree that is filled later, e.g. by a gradient.
using SlotId = std::uint32_t;

/// Appends the compact form of arguments and results to a buffer that is reused from call to call. Lists and
/// objects are opened and closed; inside an object every value follows a key(). A tensor takes at most 121
/// bytes up to 4 dimensions, its file name aside, as long as all elements are finite.
class MSPROBE_API ElementWriter {
 public:
  void clear() noexcept {
    bytes_.clear();
    worst_ = Badness::kGood;
  }
  /// Of the tensors since clear().
  Badness worst() const noexcept { return worst_; }
  std::string_view bytes() const noexcept { return bytes_; }
  /// Drops everything after the first `size` bytes, for an element that failed half-way.
  void shrink(std::size_t size) { bytes_.resize(size); }

  void null();
  void boolean(bool value);
  void integer(std::int64_t value);
  void big_integer(std::string_view digits);  // an integer of any size, as decimal digits
  void real(double value);
  void text(std::string_view value);
  void complex(double real, double imaginary);
  void tensor(const TensorElement& element);

  /// {"type": type, "value": value}, both text.
  void typed_text(std::string_view type, std::string_view value);
  /// {"type": type, "value": number}.
  void typed_real(std::string_view type, double value);
  void typed_integer(std::string_view type, std::int64_t value);
  void typed_boolean(std::string_view type, bool value);
  /// {"type": "slice", "value": [start, stop, step]}; nullopt becomes null.
  void slice(const std::optional<std::int64_t> (&parts)[3]);
  /// {"type": "{package}.Size", "value": [...]}.
  void size(std::span<const std::int64_t> extents);
  /// Text and integers as they are, without a type: for objects of a shape of their own.
  void plain_text(std::string_view value);
  void plain_integer(std::int64_t value);

  void begin_list();
  void begin_object();
  void key(std::string_view name);
  void end();

  /// A value that EventLog::fill() supplies; null when it never does.
  void slot(SlotId id);

 private:
  std::string bytes_;
  Badness worst_ = Badness::kGood;
};

// --------------------------------------------------------------------------------------------------- events

enum class RecordKind : std::uint8_t {
  kApiForward,
  kApiBackward,
  kModuleForward,
  kModuleBackward,
  kParametersGrad,  // one object: parameter -> [gradient]
  kSaved            // what PrecisionDebugger.save() got, under its name
};

enum class Part : std::uint8_t {
  kInputArgs,
  kInputKwargs,
  kOutput,
  kParameters,
  kInput,
  kValue,
  kOutputObject  // stands as kOutput: one object in place of a list
};

using RecordId = std::uint32_t;
using StackId = std::uint32_t;
inline constexpr StackId kNoStack = 0xffffffff;

/// How a framework writes what is its own, for dump.json. Each adapter has one; nothing else knows any.
struct Framework {
  std::string name;               // "framework" of the file
  std::string package;            // what the names of its types begin with: {package}.Tensor, {package}.Size
  bool qualifies_dtypes = true;   // {package}.float32; otherwise Float32
  bool has_requires_grad = true;  // of its tensors it is said
  bool has_recompute = true;      // of its calls it is said
};

}  // namespace msprobe::trace

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <span>

#include "base/crc32.h"
#include "io/mapped_file.h"
#include "msprobe/error.h"
#include "msprobe/metrics.h"
#include "msprobe/pt_file.h"
#include "msprobe/tensor_file.h"
#include "msprobe/trace_compare.h"

namespace msprobe::trace {
namespace {

using metrics::PairMetrics;
using State = Metric::State;

// ---- Files

// A tensor in a file of the dump, .pt or .npy.
class TensorFile {
 public:
  explicit TensorFile(const std::filesystem::path& path) {
    if (path.extension() != ".npy") {
      pt_.emplace(io::open_pt_tensor(path));
      view_ = pt_->view();
      memory_ = pt_->storage();
      checksum_ = pt_->checksum();
      return;
    }
    npy_.emplace(path);
    const auto bytes = npy_->bytes();
    header_ = io::parse_npy_header(bytes, bytes.size(), path.string());
    strides_.resize(header_.shape.size());
    std::int64_t step = 1;
    for (std::size_t i = 0; i < strides_.size(); ++i) {
      const std::size_t axis = header_.fortran_order ? i : strides_.size() - 1 - i;
      strides_[axis] = step;
      step *= header_.shape[axis];
    }
    view_ = {bytes.data() + header_.data_offset, header_.dtype, header_.shape, strides_};
    memory_ = bytes;
  }

  const TensorView& view() const noexcept { return view_; }
  /// What the tensor lies in, and the checksum that the file gives for it; nullopt: none.
  std::span<const std::uint8_t> memory() const noexcept { return memory_; }
  std::optional<std::uint32_t> checksum() const noexcept { return checksum_; }

 private:
  std::optional<io::PtTensorFile> pt_;
  std::optional<io::MappedFile> npy_;
  io::NpyHeader header_;
  std::vector<std::int64_t> strides_;
  TensorView view_;
  std::span<const std::uint8_t> memory_;
  std::optional<std::uint32_t> checksum_;
};

// The checksum of a file's memory, taken piece by piece in its order.
class Checksum {
 public:
  explicit Checksum(const TensorFile& file) : file_(file), next_(file.memory().data()) {}

  /// Goes on to `end`.
  void read_to(const std::uint8_t* end) {
    if (file_.checksum()) crc_.add(next_, static_cast<std::size_t>(end - next_));
    next_ = end;
  }
  /// Goes on to the end of the memory: whether it is what the file says.
  bool is_right() {
    const auto memory = file_.memory();
    read_to(memory.data() + memory.size());
    return !file_.checksum() || crc_.value() == *file_.checksum();
  }

 private:
  const TensorFile& file_;
  const std::uint8_t* next_;
  Crc32 crc_;
};

// The metrics of all elements; nothing: a file is damaged. Both files are read once: of each piece the
// checksums, and while it is in the cache of the core the metrics.
std::optional<PairMetrics> read_and_compare(const TensorFile& left, const TensorFile& right) {
  constexpr std::int64_t kPiece = 65536;  // elements: what metrics::compare() adds up at once
  const metrics::Options options{.positions = false};
  Checksum left_sum(left), right_sum(right);
  const TensorView &a = left.view(), &b = right.view();
  PairMetrics whole;
  const std::int64_t count = element_count(a);
  if (is_c_contiguous(a) && is_c_contiguous(b)) {
    const auto* const left_data = static_cast<const std::uint8_t*>(a.data);
    const auto* const right_data = static_cast<const std::uint8_t*>(b.data);
    const auto left_size = static_cast<std::int64_t>(element_size(a.dtype));
    const auto right_size = static_cast<std::int64_t>(element_size(b.dtype));
    for (std::int64_t first = 0; first < count; first += kPiece) {
      const std::array<std::int64_t, 1> shape = {std::min(kPiece, count - first)};
      const std::uint8_t* const l = left_data + first * left_size;
      const std::uint8_t* const r = right_data + first * right_size;
      left_sum.read_to(l + shape[0] * left_size);
      right_sum.read_to(r + shape[0] * right_size);
      metrics::append(whole, metrics::compare({l, a.dtype, shape, {}}, {r, b.dtype, shape, {}}, options));
    }
  } else {
    whole = metrics::compare(a, b, options);
  }
  if (!left_sum.is_right() || !right_sum.is_right()) return std::nullopt;
  return whole;
}

// Names are from the dump: one that leads out of its folder is not followed.
std::optional<TensorFile> open_tensor(const Trace& trace, const Item& item) {
  const std::filesystem::path name(trace.text(item.data_name));
  if (name.has_parent_path() || name == "..") return std::nullopt;
  try {
    return std::optional<TensorFile>(std::in_place, trace.path().parent_path() / "dump_tensor_data" / name);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// ---- Numbers

// As Python's round(value, digits): to the nearest decimal of the exact value.
double rounded(double value, int digits) {
  if (!std::isfinite(value)) return value;
  char text[400];
  const int length = std::snprintf(text, sizeof text, "%.*f", digits, value);
  std::from_chars(text, text + length, value);
  return value;
}

Metric number(double value) { return {.value = value, .state = State::kNumber}; }

Metric rounded_number(double value) { return number(rounded(value, 12)); }

void add(std::string& message, std::string_view text) {
  if (!message.empty()) message += '\n';
  message += text;
}

Metric cosine(const PairMetrics& measured, std::string& message) {
  constexpr double kTiny = 2.220446049250313e-16;
  if (measured.count == 1) {
    add(message, "This is a 1-d tensor of length 1.");
    return {};
  }
  const double left = std::sqrt(measured.left.squares), right = std::sqrt(measured.right.squares);
  if (left <= kTiny && right <= kTiny) return number(1.0);
  const auto all_zero = [&message](std::string_view side) {
    add(message,
        "Cannot compare by Cosine Similarity, All the data is Zero in " + std::string(side) + " dump data.");
    return Metric{.value = 0, .state = State::kNan};
  };
  if (left <= kTiny) return all_zero("npu");
  if (right <= kTiny) return all_zero("Bench");
  const double value = measured.dot / (left * right);
  if (std::isnan(value)) {
    add(message, "Cannot compare by Cosine Similarity, the dump data has NaN.");
    return {.value = 0, .state = State::kNan};
  }
  const double twelve = rounded(value, 12);
  return number(twelve > 0.9999 ? rounded(twelve, 6) : twelve);
}

Metric share(std::int64_t below, const PairMetrics& measured) {
  return rounded_number(static_cast<double>(below + measured.both_non_finite) /
                        static_cast<double>(measured.count));
}

void fill(RealMetrics& result, const Metric& metric) {
  for (Metric* one : {&result.cosine, &result.euclidean, &result.max_absolute, &result.max_relative,
                      &result.one_thousandth, &result.five_thousandths}) {
    *one = metric;
  }
}

RealMetrics refused(std::string message, std::string_view accuracy = "None") {
  RealMetrics result;
  result.message = std::move(message);
  result.accuracy = accuracy;
  return result;
}

// A tensor without dimensions: only the errors say something.
RealMetrics compare_scalars(const PairMetrics& measured) {
  RealMetrics result = refused(
      "This is type of 0-d tensor, can not calculate 'Cosine', 'EucDist', 'One Thousandth Err Ratio' and "
      "'Five "
      "Thousandths Err Ratio'. ");
  if (measured.finite_pairs == 1) {
    result.max_absolute = rounded_number(measured.max_absolute);
    result.max_relative = rounded_number(measured.max_relative);
    return result;
  }
  result.max_absolute.state = result.max_relative.state = State::kNan;
  result.message += "Cannot compare by MaxAbsError, the data contains nan/inf/-inf in dump data.";
  result.message += "Cannot compare by MaxRelativeError, the data contains nan/inf/-inf in dump data.";
  return result;
}

std::string_view accuracy(const RealMetrics& result) {
  if (!result.max_absolute.number()) return "None";
  const double error = result.max_absolute.value;
  if (result.cosine.state == State::kUnsupported) return "None";
  if (result.cosine.state == State::kNan) return error > 0.001 ? "No" : "Yes";  // one side is all zero
  const double cosine = result.cosine.value;
  return (cosine < 0.99 && error > 0.001) || cosine < 0.9 || error > 1 ? "No" : "Yes";
}

RealMetrics compare_elements(const PairMetrics& measured) {
  RealMetrics result;
  if (measured.one_sided > 0 || measured.different_kind > 0) {
    result = refused("The position of inf or nan in NPU and bench Tensor do not match.", "No");
    fill(result, {.value = 0, .state = State::kNotApplicable});
    return result;
  }
  result.cosine = cosine(measured, result.message);
  result.euclidean = number(std::sqrt(measured.squared_distance));
  result.max_absolute = rounded_number(measured.max_absolute);
  result.max_relative = rounded_number(measured.max_relative);
  result.one_thousandth = share(measured.below_thousandth, measured);
  result.five_thousandths = share(measured.below_five_thousandths, measured);
  result.accuracy = accuracy(result);
  return result;
}

bool same_shape(const TensorView& a, const TensorView& b) {
  return std::equal(a.shape.begin(), a.shape.end(), b.shape.begin(), b.shape.end());
}

RealMetrics compare_files(const Trace& left_trace, const Item& left, const Trace& right_trace,
                          const Item& right) {
  const auto ours = open_tensor(left_trace, left);
  const auto theirs = open_tensor(right_trace, right);
  const auto not_read = [&] {
    return refused("Dump file: ['" + std::string(left_trace.text(left.data_name)) + "', '" +
                   std::string(right_trace.text(right.data_name)) + "'] not found or read failed.");
  };
  if (!ours || !theirs) return not_read();
  const TensorView &a = ours->view(), &b = theirs->view();
  if (std::find(a.shape.begin(), a.shape.end(), 0) != a.shape.end()) {
    return refused("This is empty data, can not compare.");
  }
  if (!same_shape(a, b)) {
    RealMetrics result = refused("Shape of NPU and bench tensor do not match. Skipped.", "Unmatched");
    fill(result, {.value = 0, .state = State::kShapeUnmatched});
    return result;
  }
  const std::optional<PairMetrics> measured = read_and_compare(*ours, *theirs);
  if (!measured) return not_read();
  RealMetrics result = a.shape.empty() ? compare_scalars(*measured) : compare_elements(*measured);
  // bfloat16 files are read as float32 by the existing tool, which so does not see this difference.
  const auto loaded = [](DType dtype) { return dtype == DType::kBFloat16 ? DType::kFloat32 : dtype; };
  if (loaded(a.dtype) != loaded(b.dtype)) add(result.message, "Dtype of NPU and bench tensor do not match.");
  return result;
}

}  // namespace

RealMetrics compare_real_data(const Trace& left_trace, const Item& left, const Trace& right_trace,
                              const Item* right, bool is_exact) {
  if (right == nullptr || left.data_name.length == 0) return refused("No bench data matched.");
  if (right->data_name.length == 0) return refused("Bench does not have data file.");
  RealMetrics result = compare_files(left_trace, left, right_trace, *right);
  if (!is_exact) result.message += " Fuzzy matching data, the comparison accuracy may be affected.";
  return result;
}

}  // namespace msprobe::trace

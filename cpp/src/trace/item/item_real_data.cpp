// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <memory>
#include <span>

#include "base/crc32.h"
#include "msprobe/error.h"
#include "msprobe/file.h"
#include "msprobe/metrics.h"
#include "msprobe/tensor_file.h"
#include "msprobe/trace_compare.h"

namespace msprobe::trace {
namespace {

using metrics::PairMetrics;
using State = Metric::State;

// ---- Files

using io::TensorFile;

constexpr std::int64_t kPiece = 65536;  // elements: what metrics::compare() adds up at once

// The elements of a contiguous tensor piece by piece, and the checksum of what it lies in. Pieces are read
// into memory that stays in the cache of the core: to map a page takes the system longer than to copy it.
class Pieces {
 public:
  /// `buffer`: room for a piece; used by none else meanwhile. Throws IoError.
  Pieces(const TensorFile& file, std::span<std::uint8_t> buffer)
      : file_(file),
        data_(static_cast<const std::uint8_t*>(file.view().data)),
        element_(element_size(file.view().dtype)),
        buffer_(buffer) {
    if (file.checksum()) {
      const auto* const storage = file.storage().data();
      crc_.add(storage, static_cast<std::size_t>(data_ - storage));
    }
    const auto offset = file.offset();
    if (element_count(file.view()) < kPiece || !offset) return;  // few pages
    input_.emplace(file.path());
    offset_ = *offset;
  }

  /// Elements [first, first + count): until the next call. Throws IoError, FormatError.
  const std::uint8_t* read(std::int64_t first, std::int64_t count) {
    const auto begin = static_cast<std::size_t>(first) * element_;
    bytes_ = static_cast<std::size_t>(count) * element_;
    piece_ = data_ + begin;
    if (input_) {
      input_->read(offset_ + begin, buffer_.first(bytes_));
      piece_ = buffer_.data();
    }
    return piece_;
  }

  /// Adds the piece that was read last to the checksum: all of them, in their order.
  void check() {
    if (file_.checksum()) crc_.add(piece_, bytes_);
  }

  /// The same, where both sides have had the same bytes from starts_alike() on.
  void check_like(const Pieces& other) { crc_ = other.crc_; }

  /// Before the first piece: whether the checksums of both sides begin with it.
  bool starts_alike(const Pieces& other) const {
    return file_.checksum() && other.file_.checksum() && crc_.bytes() == 0 && other.crc_.bytes() == 0;
  }

  /// When all pieces have been checked, or none: whether the checksum is the one that the file gives.
  bool is_reference() {
    if (!file_.checksum()) return true;
    const auto rest = file_.storage().subspan(crc_.bytes());
    crc_.add(rest.data(), rest.size());
    return crc_.value() == *file_.checksum();
  }

 private:
  const TensorFile& file_;
  const std::uint8_t* const data_;
  const std::size_t element_;  // bytes
  const std::span<std::uint8_t> buffer_;
  std::optional<io::InputFile> input_;  // nothing: the mapping is read
  std::uint64_t offset_ = 0;
  const std::uint8_t* piece_ = nullptr;  // what was read last
  std::size_t bytes_ = 0;                // of it
  Crc32 crc_;                            // of the storage up to the last piece that was checked
};

// Room for a piece of either side, of each thread.
struct Buffers {
  static constexpr std::size_t kBytes = static_cast<std::size_t>(kPiece) * 16;  // of the largest dtype
  alignas(64) std::array<std::uint8_t, kBytes> target, reference;
};

// The metrics of all elements; nothing: a file is damaged. Of each piece come the metrics, and while it is in
// the cache of the core the checksums: one, as long as both sides are the same. Throws IoError, FormatError.
std::optional<PairMetrics> read_and_compare(const TensorFile& target, const TensorFile& reference) {
  thread_local const auto buffers = std::make_unique_for_overwrite<Buffers>();
  const metrics::Options options{.positions = false};
  Pieces ours(target, buffers->target), theirs(reference, buffers->reference);
  const TensorView &a = target.view(), &b = reference.view();
  PairMetrics whole;
  if (is_c_contiguous(a) && is_c_contiguous(b)) {
    const std::int64_t count = element_count(a);
    bool are_alike = ours.starts_alike(theirs);
    for (std::int64_t first = 0; first < count; first += kPiece) {
      const std::array<std::int64_t, 1> shape = {std::min(kPiece, count - first)};
      const TensorView l = {ours.read(first, shape[0]), a.dtype, shape, {}};
      const TensorView r = {theirs.read(first, shape[0]), b.dtype, shape, {}};
      const PairMetrics found = metrics::compare(l, r, options);
      metrics::append(whole, found);
      are_alike = are_alike && found.equal_bits == shape[0] && a.dtype == b.dtype;
      ours.check();
      if (are_alike) {
        theirs.check_like(ours);
      } else {
        theirs.check();
      }
    }
  } else {
    whole = metrics::compare(a, b, options);
  }
  if (!ours.is_reference() || !theirs.is_reference()) return std::nullopt;
  return whole;
}

// Names are from the dump: one that leads out of its folder is not followed.
std::optional<TensorFile> open_tensor(const Trace& trace, const Item& item) {
  const std::filesystem::path name(trace.text(item.data_name));
  if (name.has_parent_path() || name == "..") return std::nullopt;
  try {
    return TensorFile::open(trace.path().parent_path() / "dump_tensor_data" / name);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// ---- Numbers

// As Python's round(value, digits): to the nearest decimal of the exact value.
double rounded_to_digits(double value, int digits) {
  if (!std::isfinite(value)) return value;
  char text[400];
  const int length = std::snprintf(text, sizeof text, "%.*f", digits, value);
  std::from_chars(text, text + length, value);
  return value;
}

Metric number(double value) { return {.value = value, .state = State::kNumber}; }

Metric rounded_number(double value) { return number(rounded_to_digits(value, 12)); }

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
  const double target = std::sqrt(measured.target.squares), reference = std::sqrt(measured.reference.squares);
  if (target <= kTiny && reference <= kTiny) return number(1.0);
  const auto all_zero = [&message](std::string_view side) {
    add(message,
        "Cannot compare by Cosine Similarity, All the data is Zero in " + std::string(side) + " dump data.");
    return Metric{.value = 0, .state = State::kNan};
  };
  if (target <= kTiny) return all_zero("npu");
  if (reference <= kTiny) return all_zero("Bench");
  const double value = measured.dot / (target * reference);
  if (std::isnan(value)) {
    add(message, "Cannot compare by Cosine Similarity, the dump data has NaN.");
    return {.value = 0, .state = State::kNan};
  }
  const double twelve = rounded_to_digits(value, 12);
  return number(twelve > 0.9999 ? rounded_to_digits(twelve, 6) : twelve);
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

RealMetrics compare_files(const Trace& target_trace, const Item& target, const Trace& reference_trace,
                          const Item& reference) {
  const auto ours = open_tensor(target_trace, target);
  const auto theirs = open_tensor(reference_trace, reference);
  const auto not_read = [&] {
    return refused("Dump file: ['" + std::string(target_trace.text(target.data_name)) + "', '" +
                   std::string(reference_trace.text(reference.data_name)) + "'] not found or read failed.");
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
  std::optional<PairMetrics> measured;
  try {
    measured = read_and_compare(*ours, *theirs);
  } catch (const Error&) {  // a file that is cut short or goes away meanwhile
    return not_read();
  }
  if (!measured) return not_read();
  RealMetrics result = a.shape.empty() ? compare_scalars(*measured) : compare_elements(*measured);
  // bfloat16 files are read as float32 by mindstudio-probe, which so does not see this difference.
  const auto loaded = [](DType dtype) { return dtype == DType::kBFloat16 ? DType::kFloat32 : dtype; };
  if (loaded(a.dtype) != loaded(b.dtype)) add(result.message, "Dtype of NPU and bench tensor do not match.");
  return result;
}

}  // namespace

RealMetrics compare_real_data(const Trace& target_trace, const Item& target, const Trace& reference_trace,
                              const Item* reference, bool is_exact) {
  if (reference == nullptr || target.data_name.length == 0) return refused("No bench data matched.");
  if (reference->data_name.length == 0) return refused("Bench does not have data file.");
  RealMetrics result = compare_files(target_trace, target, reference_trace, *reference);
  if (!is_exact) result.message += " Fuzzy matching data, the comparison accuracy may be affected.";
  return result;
}

}  // namespace msprobe::trace

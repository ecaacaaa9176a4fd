// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <utility>

#include "base/convert.h"
#include "base/layout.h"
#include "msprobe/error.h"
#include "msprobe/metrics.h"

namespace msprobe::metrics {
namespace {

constexpr std::size_t kPiece = 4096;  // elements that are read at once

// Consecutive elements of a tensor as float64.
class Reader {
 public:
  explicit Reader(const TensorView& view)
      : dtype_(view.dtype),
        layout_(view, false),
        raw_(std::make_unique_for_overwrite<std::byte[]>(kPiece * 16)),
        values_(2 * kPiece) {}

  std::int64_t count() const noexcept { return layout_.count(); }

  /// At most kPiece; until the next call.
  const double* read(std::int64_t first, std::size_t count) {
    // Copied in any case: memory of a file may have any alignment.
    if (layout_.contiguous()) {
      std::copy_n(layout_.at(first), count * element_size(dtype_), raw_.get());
    } else {
      layout_.gather(first, count, raw_.get());
    }
    convert_to_double(raw_.get(), dtype_, count, values_.data());
    if (is_complex(dtype_)) {
      for (std::size_t i = 0; i < count; ++i) values_[i] = values_[2 * i];
    }
    return values_.data();
  }

 private:
  DType dtype_;
  Layout layout_;
  std::unique_ptr<std::byte[]> raw_;
  std::vector<double> values_;
};

}  // namespace

Outliers outliers(const TensorView& target, const TensorView& reference, double relative, double absolute,
                  std::size_t most) {
  Reader ours(target);
  Reader theirs(reference);
  if (!std::equal(target.shape.begin(), target.shape.end(), reference.shape.begin(), reference.shape.end())) {
    throw InvalidArgument("expected two tensors of the same shape");
  }
  Outliers found;
  for (std::int64_t first = 0; first < ours.count(); first += static_cast<std::int64_t>(kPiece)) {
    const auto count = static_cast<std::size_t>(std::min<std::int64_t>(kPiece, ours.count() - first));
    const double* const l = ours.read(first, count);
    const double* const r = theirs.read(first, count);
    for (std::size_t i = 0; i < count; ++i) {
      const bool is_close = l[i] == r[i] || (std::isfinite(r[i]) &&
                                             std::abs(l[i] - r[i]) <= absolute + relative * std::abs(r[i]));
      if (is_close) continue;
      ++found.count;
      if (found.first.size() < most) {
        found.first.push_back({first + static_cast<std::int64_t>(i), l[i], r[i]});
      }
    }
  }
  return found;
}

std::vector<double> values(const TensorView& view, std::int64_t first, std::size_t count) {
  Reader reader(view);
  std::vector<double> result;
  while (count > 0 && first >= 0 && first < reader.count()) {
    const auto some = std::min({count, kPiece, static_cast<std::size_t>(reader.count() - first)});
    const double* const found = reader.read(first, some);
    result.insert(result.end(), found, found + some);
    first += static_cast<std::int64_t>(some);
    count -= some;
  }
  return result;
}

}  // namespace msprobe::metrics

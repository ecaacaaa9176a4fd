// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/convert.h"
#include "base/layout.h"
#include "msprobe/sketch_text.h"
#include "msprobe/stats.h"
#include "msprobe/trace.h"

namespace msprobe::trace {
namespace {

// What mindstudio-probe's reductions give: they run in the tensor's own dtype, or in float32 for those that
// have no reductions of their own.
double in_dtype_of_reduction(double value, DType dtype) {
  return rounded_to_half(static_cast<float>(value), dtype);
}

bool is_integral(DType dtype) { return dtype >= DType::kInt64 && dtype <= DType::kUInt8; }

template <typename T>
T first_of(const TensorView& view) {
  T value;
  std::memcpy(&value, view.data, sizeof(T));
  return value;
}

std::int64_t integer_at(const TensorView& view) {
  switch (view.dtype) {
    case DType::kInt64: return first_of<std::int64_t>(view);
    case DType::kInt32: return first_of<std::int32_t>(view);
    case DType::kInt16: return first_of<std::int16_t>(view);
    case DType::kInt8: return first_of<std::int8_t>(view);
    case DType::kUInt64: return static_cast<std::int64_t>(first_of<std::uint64_t>(view));
    case DType::kUInt32: return first_of<std::uint32_t>(view);
    case DType::kUInt16: return first_of<std::uint16_t>(view);
    default: return first_of<std::uint8_t>(view);
  }
}

// Absolute values in the precision of the parts, as NumPy computes them.
template <typename Part>
void measure_absolute(const TensorView& view, Statistics& result) {
  double sum = 0;
  result.max = -std::numeric_limits<double>::infinity();
  result.min = std::numeric_limits<double>::infinity();
  bool nan = false;
  const Layout layout(view, /*any_order=*/false);
  std::array<Part, std::size_t{2} * 512> parts;  // of one block
  for (std::int64_t first = 0; first < layout.count();) {
    const auto count = std::min<std::int64_t>(layout.count() - first, parts.size() / 2);
    auto* const out = reinterpret_cast<std::byte*>(parts.data());
    if (layout.contiguous()) {
      std::memcpy(out, layout.at(first), static_cast<std::size_t>(count) * 2 * sizeof(Part));
    } else {
      layout.gather(first, static_cast<std::size_t>(count), out);
    }
    for (std::size_t i = 0; std::cmp_less(i, count); ++i) {
      const double absolute = std::hypot(parts[2 * i], parts[2 * i + 1]);
      nan = nan || std::isnan(absolute);
      result.max = std::max(result.max, absolute);
      result.min = std::min(result.min, absolute);
      sum += absolute;
    }
    first += count;
  }
  result.mean = sum / static_cast<double>(element_count(view));
  for (double* value : {&result.max, &result.min, &result.mean}) {
    *value = nan ? std::numeric_limits<double>::quiet_NaN() : static_cast<Part>(*value);
  }
}

void measure_complex(const TensorView& view, Statistics& result) {
  result.form = Statistics::Form::kNoNorm;
  if (view.dtype == DType::kComplex128) {
    measure_absolute<double>(view, result);
  } else if (view.dtype == DType::kComplex64) {
    measure_absolute<float>(view, result);
  } else {  // complex32 has no absolute values anywhere
    result.form = Statistics::Form::kNone;
  }
}

}  // namespace

Statistics measure(const TensorView& view, const Measures& measures, ThreadPool* pool) {
  const bool as_float32 = view.dtype == DType::kBFloat16 ||
                          (view.dtype >= DType::kFloat8E4M3FN && view.dtype <= DType::kFloat8E8M0FNU);
  stats::SummaryOptions options;
  if (measures.checksum) {
    options.checksum =
        as_float32 ? stats::SummaryOptions::Checksum::kFloat32 : stats::SummaryOptions::Checksum::kNative;
  }
  options.sketch = measures.sketch && !view.shape.empty();
  const stats::Summary summary = stats::summarize(view, options, pool);
  Statistics result = statistics_of(summary, view.dtype);
  if (summary.count == 0 || view.dtype == DType::kBool) return result;
  if (is_complex(view.dtype)) {
    measure_complex(view, result);
  } else if (view.shape.empty() && is_integral(view.dtype)) {
    result.form = view.dtype == DType::kUInt64 ? Statistics::Form::kUnsigned : Statistics::Form::kInteger;
    result.integer = integer_at(view);
  } else if (view.shape.empty()) {
    result.form = view.dtype == DType::kFloat64 ? Statistics::Form::kDoubles : Statistics::Form::kFloats;
    result.max = result.min = result.mean = result.norm = summary.max.value_or(0);
  }
  return result;
}

Statistics statistics_of(const stats::Summary& summary, DType dtype, NormIn norm) {
  Statistics result;
  result.checksum = summary.crc32;
  result.nan_count = summary.nan_count;
  result.inf_count = summary.pos_inf_count + summary.neg_inf_count;
  if (summary.sketch) {
    const stats::NonFinite non_finite{summary.nan_count, summary.pos_inf_count, summary.neg_inf_count};
    result.sketch = sketch_bytes(*summary.sketch, non_finite, is_wide(dtype));
  }
  if (summary.count == 0) return result;
  if (is_complex(dtype)) {
    if (!summary.max || !summary.min || !summary.mean || dtype == DType::kComplex32) return result;
    result.form = Statistics::Form::kNoNorm;
    const bool narrow = dtype == DType::kComplex64;
    const auto rounded = [narrow](double value) { return narrow ? static_cast<float>(value) : value; };
    result.max = rounded(*summary.max);
    result.min = rounded(*summary.min);
    result.mean = rounded(*summary.mean);
    return result;
  }
  result.form = dtype == DType::kBool ? Statistics::Form::kBool : Statistics::Form::kFloats;
  result.max = in_dtype_of_reduction(summary.max.value_or(0), dtype);
  result.min = in_dtype_of_reduction(summary.min.value_or(0), dtype);
  result.mean = in_dtype_of_reduction(summary.mean.value_or(0), dtype);
  result.norm =
      norm == NormIn::kDType ? in_dtype_of_reduction(summary.norm, dtype) : static_cast<float>(summary.norm);
  return result;
}

}  // namespace msprobe::trace

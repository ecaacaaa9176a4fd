// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "msprobe/stats.h"
#include "msprobe/trace.h"

namespace msprobe::trace {
namespace {

// Rounds to the nearest number, ties to even, with `fraction_bits` bits behind the point, smallest normal
// exponent `min_exponent` and largest finite value `largest` (IEEE 754, section 4.3.1).
double rounded(double value, int fraction_bits, int min_exponent, double largest) {
  if (!std::isfinite(value) || value == 0) return value;
  const int exponent = std::max(std::ilogb(value), min_exponent);
  const double result =
      std::ldexp(std::nearbyint(std::ldexp(value, fraction_bits - exponent)), exponent - fraction_bits);
  return std::abs(result) > largest ? std::copysign(std::numeric_limits<double>::infinity(), value) : result;
}

// What the existing tool's reductions give: they run in the tensor's own dtype, or in float32 for those that
// have no reductions of their own.
double in_dtype_of_reduction(double value, DType dtype) {
  if (dtype == DType::kFloat16) return rounded(static_cast<float>(value), 10, -14, 65504);
  if (dtype == DType::kBFloat16) return rounded(static_cast<float>(value), 7, -126, 3.3895313892515355e38);
  return static_cast<float>(value);
}

bool is_integral(DType dtype) { return dtype >= DType::kInt64 && dtype <= DType::kUInt8; }

template <typename T>
T element_at(const TensorView& view, std::int64_t offset) {
  T value;
  std::memcpy(&value, static_cast<const char*>(view.data) + offset * static_cast<std::int64_t>(sizeof(T)),
              sizeof(T));
  return value;
}

std::int64_t integer_at(const TensorView& view) {
  switch (view.dtype) {
    case DType::kInt64: return element_at<std::int64_t>(view, 0);
    case DType::kInt32: return element_at<std::int32_t>(view, 0);
    case DType::kInt16: return element_at<std::int16_t>(view, 0);
    case DType::kInt8: return element_at<std::int8_t>(view, 0);
    case DType::kUInt64: return static_cast<std::int64_t>(element_at<std::uint64_t>(view, 0));
    case DType::kUInt32: return element_at<std::uint32_t>(view, 0);
    case DType::kUInt16: return element_at<std::uint16_t>(view, 0);
    default: return element_at<std::uint8_t>(view, 0);
  }
}

// Calls `use(offset in elements)` for every element in C order.
template <typename Use>
void for_each_offset(const TensorView& view, Use use) {
  const std::size_t rank = view.shape.size();
  std::vector<std::int64_t> strides(rank);
  std::int64_t dense = 1;
  for (std::size_t i = rank; i-- > 0;) {
    strides[i] = view.strides.empty() ? dense : view.strides[i];
    dense *= view.shape[i];
  }
  std::vector<std::int64_t> index(rank, 0);
  std::int64_t offset = 0;
  for (std::int64_t left = element_count(view); left > 0; --left) {
    use(offset);
    for (std::size_t i = rank; i-- > 0;) {
      offset += strides[i];
      if (++index[i] < view.shape[i]) break;
      offset -= strides[i] * view.shape[i];
      index[i] = 0;
    }
  }
}

// Absolute values in the precision of the parts, as NumPy computes them.
template <typename Part>
void measure_absolute(const TensorView& view, Statistics& result) {
  double sum = 0;
  result.max = -std::numeric_limits<double>::infinity();
  result.min = std::numeric_limits<double>::infinity();
  bool nan = false;
  for_each_offset(view, [&](std::int64_t offset) {
    const double absolute =
        std::hypot(element_at<Part>(view, 2 * offset), element_at<Part>(view, 2 * offset + 1));
    nan = nan || std::isnan(absolute);
    result.max = std::max(result.max, absolute);
    result.min = std::min(result.min, absolute);
    sum += absolute;
  });
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

Statistics measure(const TensorView& view, bool checksum, ThreadPool* pool) {
  const bool as_float32 = view.dtype == DType::kBFloat16 ||
                          (view.dtype >= DType::kFloat8E4M3FN && view.dtype <= DType::kFloat8E8M0FNU);
  stats::SummaryOptions options;
  if (checksum) {
    options.checksum =
        as_float32 ? stats::SummaryOptions::Checksum::kFloat32 : stats::SummaryOptions::Checksum::kNative;
  }
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

Statistics statistics_of(const stats::Summary& summary, DType dtype) {
  Statistics result;
  result.checksum = summary.crc32;
  result.nan_count = summary.nan_count;
  result.inf_count = summary.pos_inf_count + summary.neg_inf_count;
  if (summary.count == 0 || is_complex(dtype)) return result;
  result.form = dtype == DType::kBool ? Statistics::Form::kBool : Statistics::Form::kFloats;
  result.max = in_dtype_of_reduction(summary.max.value_or(0), dtype);
  result.min = in_dtype_of_reduction(summary.min.value_or(0), dtype);
  result.mean = in_dtype_of_reduction(summary.mean.value_or(0), dtype);
  result.norm = in_dtype_of_reduction(summary.norm, dtype);
  return result;
}

}  // namespace msprobe::trace

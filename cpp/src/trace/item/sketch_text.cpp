// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/sketch_text.h"

#include <cmath>

#include "base/base64.h"
#include "trace/log/encoding.h"

namespace msprobe::trace {
namespace {

// The first form had neither this byte nor a digest.
constexpr std::uint8_t kForm = 2;
constexpr std::size_t kHead = sizeof(kForm) + sizeof(std::uint64_t);
constexpr std::size_t kMoments = 2 * sizeof(double);
constexpr std::size_t kNarrow = kMoments + stats::Sketch::kSums * sizeof(float);
constexpr std::size_t kWide = kMoments + stats::Sketch::kSums * sizeof(double);
constexpr std::size_t kRest = 2 * sizeof(double) + 3 * sizeof(std::int64_t);

}  // namespace

bool is_wide(std::optional<DType> dtype) noexcept {
  return dtype && (element_size(*dtype) == 8 || *dtype == DType::kComplex128) && *dtype != DType::kComplex64;
}

std::string sketch_bytes(const stats::Sketch& sketch, const stats::NonFinite& non_finite, bool wide) {
  std::string bytes;
  bytes.reserve(kHead + kWide + kRest);
  put(bytes, kForm);
  put(bytes, sketch.digest);
  put(bytes, sketch.mean);
  put(bytes, sketch.norm);
  for (const double sum : sketch.sums) {
    if (wide) {
      put(bytes, sum);
    } else {
      put(bytes, static_cast<float>(sum));
    }
  }
  if (non_finite.any()) {
    put(bytes, sketch.min);
    put(bytes, sketch.max);
    for (const std::int64_t count : {non_finite.nan, non_finite.pos_inf, non_finite.neg_inf})
      put(bytes, count);
  }
  return bytes;
}

std::string sketch_text(const stats::Sketch& sketch, const stats::NonFinite& non_finite, bool wide) {
  std::string text;
  append_base64(text, sketch_bytes(sketch, non_finite, wide));
  return text;
}

std::optional<SketchText> read_sketch(std::string_view base64) {
  const auto found = from_base64(base64);
  if (!found) return std::nullopt;
  const bool has_digest = found->size() % 8 == kHead % 8;
  if (has_digest && found->size() < kHead) return std::nullopt;
  const std::size_t size = found->size() - (has_digest ? kHead : 0);
  const bool has_rest = size == kNarrow + kRest || size == kWide + kRest;
  const std::size_t sums = has_rest ? size - kRest : size;
  if (sums != kNarrow && sums != kWide) return std::nullopt;
  Bytes bytes(*found);
  SketchText result;
  result.has_digest = has_digest;
  if (has_digest) {
    if (bytes.take<std::uint8_t>() != kForm) return std::nullopt;
    result.sketch.digest = bytes.take<std::uint64_t>();
  }
  result.sketch.mean = bytes.take<double>();
  result.sketch.norm = bytes.take<double>();
  for (double& sum : result.sketch.sums) sum = sums == kWide ? bytes.take<double>() : bytes.take<float>();
  if (has_rest) {
    result.has_extremes = true;
    result.sketch.min = bytes.take<double>();
    result.sketch.max = bytes.take<double>();
    for (std::int64_t* count :
         {&result.non_finite.nan, &result.non_finite.pos_inf, &result.non_finite.neg_inf}) {
      *count = std::max<std::int64_t>(bytes.take<std::int64_t>(), 0);
    }
  }
  return result;
}

}  // namespace msprobe::trace

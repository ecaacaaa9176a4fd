// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// What calls make of rounding: measuring, and when a call counts as fragile.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

#include "base/convert.h"
#include "base/float_environment.h"
#include "msprobe/error.h"
#include "msprobe/operators.h"
#include "msprobe/perturb.h"
#include "msprobe/record_name.h"

namespace msprobe::perturb {
namespace {

constexpr std::size_t kChangeBlock = 1024;

// More than its condition number: random changes reach a part of it only, so a factor of this is not chance.
constexpr double kMuchMore = 16;

// Bits to the largest number: below, the next step of a training may overflow.
constexpr double kFewBits = 2;

// Numbers that are so much larger than all arguments were made by the call.
constexpr double kMadeByCall = 4;

// A share of rows.
constexpr double kManyRows = 0.5;

// Below this a number is next to nothing beside 1. Of float16: where digits are lost.
double next_to_nothing(DType dtype) {
  switch (dtype) {
    case DType::kFloat64: return 0x1p-53;
    case DType::kFloat16: return 0x1p-14;
    default: return 0x1p-24;
  }
}

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

std::string of_digits(double amplification, DType dtype) {
  const int digits = digits_of(dtype);
  const double lost = std::min(std::log2(amplification), static_cast<double>(digits));
  char text[64];
  std::snprintf(text, sizeof text, "%.0f of the %d bits of %s are lost", lost, digits,
                std::string(dtype_name(dtype)).c_str());
  return text;
}

std::optional<Fragility> near_zero(const CallMeasure& measure) {
  const double limit = next_to_nothing(measure.dtype);
  const double least = measure.least_argument;
  std::string what;
  if (measure.arithmetic == Arithmetic::kLogarithm && least <= limit) {
    what = "the logarithm of " + short_number(least);
  } else if (measure.arithmetic == Arithmetic::kQuotient && least <= limit &&
             measure.largest_result >= 1 / std::sqrt(limit)) {
    what = "a quotient by " + short_number(least);
  } else if (measure.arithmetic == Arithmetic::kRoot && measure.largest_result >= 1 / limit) {
    what = "the root or the reciprocal of " + short_number(least);
  }
  if (what.empty()) return std::nullopt;
  const double bits = least > 0 ? -std::log2(least) : 1e3;
  const double severity = 0.5 + 0.5 * std::min(1.0, bits / (-2 * std::log2(limit)));
  const std::string slope =
      least > 0 ? "its derivative is as large as " + short_number(1 / least) : "its derivative is infinite";
  return Fragility{FragilityKind::kNearZero, false, severity, what + ": " + slope};
}

std::optional<Fragility> amplified(const CallMeasure& measure, bool backward) {
  const double amplification = backward ? measure.backward : measure.forward;
  const double lost = std::log2(amplification);
  // In the backward pass gradients are measured against each other, which is coarser.
  if (!(lost >= most_lost_bits(measure.dtype) + (backward ? 1 : 0))) return std::nullopt;
  Fragility found;
  found.backward = backward;
  const int digits = digits_of(measure.dtype);
  found.severity = std::min(1.0, lost / digits);
  const std::string times = short_number(amplification);
  found.reason = (backward ? "gradients differ by " : "a rounding of its arguments becomes ") + times +
                 (backward ? " times what goes in differs by" : " roundings") + ": " +
                 of_digits(amplification, measure.dtype);
  found.kind = FragilityKind::kAmplification;
  if (backward) return found;
  if (measure.condition >= 1 && amplification > kMuchMore * measure.condition) {
    found.kind = FragilityKind::kUnstable;
    found.reason += "; its condition number allows " + short_number(measure.condition);
    return found;
  }
  switch (measure.arithmetic) {
    case Arithmetic::kSum:
    case Arithmetic::kDifference:
    case Arithmetic::kProduct:
      found.kind = FragilityKind::kCancellation;
      found.reason = "a small sum of large terms: " + found.reason;
      break;
    case Arithmetic::kSoftmax: found.kind = FragilityKind::kSaturated; break;
    default: break;
  }
  return found;
}

std::optional<Fragility> saturated(const CallMeasure& measure) {
  if (measure.arithmetic != Arithmetic::kSoftmax) return std::nullopt;
  const double lost = measure.condition >= 1 ? std::log2(measure.condition) : 0;
  const bool is_large = lost >= most_lost_bits(measure.dtype);
  if (!is_large && measure.saturated < kManyRows) return std::nullopt;
  Fragility found{FragilityKind::kSaturated, false, 0, "a softmax over numbers as large as "};
  found.severity = std::clamp(lost / digits_of(measure.dtype), 0.5, 1.0);
  found.reason += short_number(measure.condition);
  if (is_large) found.reason += ": " + of_digits(measure.condition, measure.dtype);
  if (measure.saturated > 0) {
    char text[96];
    std::snprintf(text, sizeof text, "; in %.0f %% of its rows all but one result are 0, without a gradient",
                  100 * measure.saturated);
    found.reason += text;
  }
  return found;
}

std::optional<Fragility> overflowed(const CallMeasure& measure) {
  if (measure.arguments_not_finite == 0 && measure.results_not_finite > 0) {
    std::string reason = std::to_string(measure.results_not_finite) +
                         " infinities or NaN come out of finite numbers as large as " +
                         short_number(measure.largest_argument);
    if (measure.arithmetic == Arithmetic::kLogarithm || measure.arithmetic == Arithmetic::kQuotient ||
        measure.arithmetic == Arithmetic::kRoot) {
      reason += " and as small as " + short_number(measure.least_argument);
    }
    return Fragility{FragilityKind::kOverflow, false, 2, std::move(reason)};
  }
  if (measure.arguments_not_finite == 0 && measure.gradients_not_finite > 0) {
    return Fragility{
        FragilityKind::kOverflow, true, 2,
        std::to_string(measure.gradients_not_finite) + " gradients are infinite or NaN, out of finite ones"};
  }
  const double margin = overflow_margin(measure.dtype, measure.largest_result);
  const bool is_fill = measure.largest_result >= largest_number(measure.dtype);  // of a mask
  if (margin >= kFewBits || is_fill || measure.largest_result < kMadeByCall * measure.largest_argument) {
    return std::nullopt;
  }
  char text[96];
  std::snprintf(text, sizeof text, "%.1f bits to the largest number of %s: results are as large as %.3g",
                margin, std::string(dtype_name(measure.dtype)).c_str(), measure.largest_result);
  return Fragility{FragilityKind::kNearOverflow, false, 1 - margin / (2 * kFewBits), text};
}

}  // namespace

Arithmetic arithmetic_of(std::string_view api) {
  if (trace::RecordName(api).has_collective_prefix()) return Arithmetic::kNone;
  return operators::find(api).condition;
}

void Change::add(const Change& other) noexcept {
  difference += other.difference;
  size += other.size;
  largest = std::max(largest, other.largest);
  least = std::min(least, other.least);
  count += other.count;
  not_finite += other.not_finite;
}

double Change::relative() const noexcept {
  return size > 0 ? std::sqrt(difference / size) : std::numeric_limits<double>::quiet_NaN();
}

Change change(DType dtype, const void* before, const void* after, std::size_t count) {
  if (is_complex(dtype)) throw InvalidArgument("perturb: expected real tensors, found complex ones");
  const FloatEnvironment environment;
  Change result;
  double left[kChangeBlock];
  double right[kChangeBlock];
  for (std::size_t begin = 0; begin < count; begin += kChangeBlock) {
    const std::size_t size = std::min(kChangeBlock, count - begin);
    const std::size_t offset = begin * element_size(dtype);
    convert_to_double(static_cast<const char*>(before) + offset, dtype, size, left);
    convert_to_double(static_cast<const char*>(after) + offset, dtype, size, right);
    Change block;
    for (std::size_t i = 0; i < size; ++i) {
      const double x = left[i];
      const bool is_finite = std::isfinite(x);
      const double magnitude = is_finite ? std::abs(x) : 0;
      const double apart = right[i] - x;
      block.not_finite += is_finite ? 0 : 1;
      block.difference += std::isfinite(apart) ? apart * apart : 0;
      block.size += magnitude * magnitude;
      block.largest = std::max(block.largest, magnitude);
      block.least = std::min(block.least, is_finite ? magnitude : block.least);
    }
    block.count = static_cast<std::int64_t>(size);
    result.add(block);
  }
  return result;
}

std::string_view fragility_name(FragilityKind kind) noexcept {
  switch (kind) {
    case FragilityKind::kOverflow: return "overflow";
    case FragilityKind::kNearOverflow: return "near_overflow";
    case FragilityKind::kNearZero: return "near_zero";
    case FragilityKind::kSaturated: return "saturated_softmax";
    case FragilityKind::kCancellation: return "cancellation";
    case FragilityKind::kUnstable: return "unstable";
    case FragilityKind::kAmplification: return "amplification";
  }
  return "";
}

double most_lost_bits(DType dtype) noexcept {
  switch (dtype) {
    case DType::kFloat64: return 26;
    case DType::kFloat16: return 8;
    case DType::kBFloat16: return 6;
    default: return 12;
  }
}

double overflow_margin(DType dtype, double largest) noexcept {
  return largest > 0 ? std::log2(largest_number(dtype)) - std::log2(largest)
                     : std::numeric_limits<double>::infinity();
}

std::optional<Fragility> judge(const CallMeasure& measure) {
  std::optional<Fragility> worst;
  for (std::optional<Fragility> one : {overflowed(measure), near_zero(measure), saturated(measure),
                                       amplified(measure, false), amplified(measure, true)}) {
    if (one && (!worst || one->severity > worst->severity)) worst = std::move(one);
  }
  return worst;
}

}  // namespace msprobe::perturb

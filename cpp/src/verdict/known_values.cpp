// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/known_values.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/non_finite.h"

namespace msprobe::compare {
namespace {

constexpr double kRoundings = 4;                    // of two numbers and what they are divided by
constexpr double kSameNorm = kRoundings * 0x1p-24;  // sums in double are rounded to float32 in files
constexpr double kTellsScaled = 3;                  // elements: a factor makes any number of any other

bool is_close(double a, double b, double tolerance) {
  return std::abs(a - b) <= tolerance * std::max(std::abs(a), std::abs(b));
}

}  // namespace

std::optional<KnownValues::Values> KnownValues::values_of(const metrics::TensorFacts& facts) {
  if (!facts.min || !facts.max || !std::isfinite(*facts.min) || !std::isfinite(*facts.max)) {
    return std::nullopt;
  }
  Values values;
  values.count = facts.count;
  const double span = *facts.max - *facts.min;
  values.balance = span > 0 ? (*facts.max + *facts.min) / span : std::copysign(1.0, *facts.max);
  const double largest = std::max(std::abs(*facts.min), std::abs(*facts.max));
  values.largest = largest;
  // Records of 16 bits have a norm that is rounded to them, and sketches have it in double.
  const double norm = facts.sketch ? std::abs(facts.sketch->norm) : facts.norm.value_or(kNaN);
  if (facts.is_exact && std::isfinite(norm) && largest > 0) values.norm = norm / largest;
  return values;
}

void KnownValues::add(const metrics::TensorFacts& reference, const metrics::Distance& distance) {
  if (const auto values = values_of(reference)) of_.emplace(values->balance, Known{*values, distance});
}

const metrics::Distance* KnownValues::find(const metrics::TensorFacts& reference) const {
  return find(reference, 0, false);
}

const metrics::Distance* KnownValues::find_scaled(const metrics::TensorFacts& reference) const {
  if (reference.count < kTellsScaled || reference.min == reference.max) return nullptr;
  return find(reference, kRoundings * metrics::unit_roundoff(reference.dtype), true);
}

const metrics::Distance* KnownValues::find(const metrics::TensorFacts& reference, double tolerance,
                                           bool scaled) const {
  const auto values = values_of(reference);
  if (!values) return nullptr;
  const double same_norm = std::max(kSameNorm, tolerance);
  const metrics::Distance* found = nullptr;
  const auto end = of_.upper_bound(values->balance + tolerance);
  for (auto one = of_.lower_bound(values->balance - tolerance); one != end; ++one) {
    const auto& [known, distance] = one->second;
    if (known.count != values->count || (!scaled && known.largest != values->largest)) continue;
    const bool has_norms = known.norm >= 0 && values->norm >= 0;
    if (has_norms && !is_close(known.norm, values->norm, same_norm)) continue;
    if (found == nullptr || distance.high > found->high) found = &distance;
  }
  return found;
}

}  // namespace msprobe::compare

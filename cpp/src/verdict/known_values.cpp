// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/known_values.h"

#include <algorithm>
#include <cmath>

#include "base/non_finite.h"

namespace msprobe::compare {
namespace {

// Of two numbers and what they are divided by: sums in double are rounded to float32 in files.
constexpr double kSameNorm = 4 * 0x1p-24;

bool has_extremes(const metrics::TensorFacts& facts) {
  return facts.min && facts.max && std::isfinite(*facts.min) && std::isfinite(*facts.max);
}

double norm_of(const metrics::TensorFacts& facts) {
  // Records of 16 bits have a norm that is rounded to them, and sketches have it in double.
  const double norm = facts.sketch ? std::abs(facts.sketch->norm) : facts.norm.value_or(kNaN);
  return facts.is_exact && std::isfinite(norm) ? norm : -1;
}

}  // namespace

void KnownValues::add(const metrics::TensorFacts& reference, const metrics::Distance& distance) {
  if (has_extremes(reference))
    of_.emplace(std::array{reference.count, *reference.min, *reference.max},
                Known{norm_of(reference), distance});
}

const metrics::Distance* KnownValues::find(const metrics::TensorFacts& reference) const {
  if (!has_extremes(reference)) return nullptr;
  const double norm = norm_of(reference);
  const metrics::Distance* found = nullptr;
  const auto [first, end] = of_.equal_range({reference.count, *reference.min, *reference.max});
  for (auto one = first; one != end; ++one) {
    const auto& [known, distance] = one->second;
    const bool has_norms = known >= 0 && norm >= 0;
    if (has_norms && std::abs(known - norm) > kSameNorm * std::max(known, norm)) continue;
    if (found == nullptr || distance.high > found->high) found = &distance;
  }
  return found;
}

}  // namespace msprobe::compare

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Tensors that are found again by their values, where no record says that one is the other: the gradient
/// that a backward pass left and the one that an optimizer is given, what an optimizer wrote and what the
/// next step begins with.

#include <array>
#include <map>

#include "msprobe/metrics.h"

namespace msprobe::compare {

/// How far off such tensors were, by their values in the reference: the number of elements, the extremes, and
/// the norm where both sides have it in double precision.
class KnownValues {
 public:
  /// Nothing happens where the extremes are not known.
  void add(const metrics::TensorFacts& reference, const metrics::Distance& distance);

  /// Of several tensors with these values the one that is farthest off; null: none has them.
  const metrics::Distance* find(const metrics::TensorFacts& reference) const;

  bool empty() const noexcept { return of_.empty(); }

 private:
  struct Known {
    double norm = -1;  // -1: not known to double precision
    metrics::Distance distance;
  };
  std::multimap<std::array<double, 3>, Known> of_;  // by elements, minimum, maximum
};

}  // namespace msprobe::compare

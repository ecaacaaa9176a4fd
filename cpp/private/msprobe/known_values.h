// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Tensors that are found again by their values, where no record says that one is the other: the gradient
/// that a backward pass left and the one that an optimizer is given, what an optimizer wrote and what the
/// next step begins with.

#include <map>
#include <optional>

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

  /// The same with a factor between them, as clipping and the scale of a loss leave gradients where nothing
  /// is recorded; each element is rounded once. Not of one or two elements, nor of equal ones: a factor makes
  /// any number of any other.
  const metrics::Distance* find_scaled(const metrics::TensorFacts& reference) const;

  bool empty() const noexcept { return of_.empty(); }

 private:
  /// What a factor leaves as it is, and what it changes.
  struct Values {
    double count = 0;
    double balance = 0;  // (max + min) / (max - min)
    double norm = -1;    // as a multiple of the largest magnitude; -1: not known to double precision
    double largest = 0;  // magnitude
  };
  struct Known {
    Values values;
    metrics::Distance distance;
  };
  static std::optional<Values> values_of(const metrics::TensorFacts& facts);
  const metrics::Distance* find(const metrics::TensorFacts& reference, double tolerance, bool scaled) const;

  std::multimap<double, Known> of_;  // by the balance
};

}  // namespace msprobe::compare

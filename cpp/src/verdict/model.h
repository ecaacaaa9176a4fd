// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How far off a place may be when nothing is wrong: what its sources are off by, times what is made of it,
/// plus the rounding of its own. A function of the place and of the model alone. All sizes are relative L2
/// distances (msprobe/metrics.h).

#include <cmath>
#include <optional>
#include <vector>

#include "msprobe/step_walk.h"
#include "verdict/place.h"

namespace msprobe::verdict {

/// What one source adds to a tolerance.
struct Contribution {
  double gain = 0;
  double error = 0;  // of the source
};

struct Tolerance {
  double magnitude = 0;  // relative L2 distance
  double bias = 0;       // of norm and mean, where errors of single elements average out
  /// What a single element may be off by where nothing that goes in differs; 0: something does.
  double element = 0;
  double own = 0;                        // the part of the magnitude that is rounding of its own
  double cancelled = 1;                  // how much smaller the result is than the terms that it is a sum of
  std::vector<Contribution> of_sources;  // in their order
};

/// The numbers and rules that a verdict is made by. Whoever judges holds one.
struct Model {
#define NUMBER(name, value, source) double name = 0;
#define RULE(name, says) bool name = true;
#include "verdict/model.inc"

  /// With the numbers of model.inc. Made in model.cpp, so that tests/faults/mutants.py compiles it alone.
  Model();

  /// Throws InvalidArgument for a name that is neither a number nor a rule.
  static Model with(const compare::ModelChanges& changes);

  Tolerance tolerance(const Place& place) const;

  /// By which factor a distance is beyond a tolerance; 1 and more is suspect. Infinite for what has no
  /// measure.
  double excess(const metrics::Distance& distance, const Tolerance& allowed) const;

  /// The same of a number of a program, which is at least as fine as float32: as one that is read (R4), or
  /// that everything before, which is off by `error`, has made (R3).
  double excess_of_number(const metrics::Distance& distance,
                          std::optional<double> error = std::nullopt) const;

  /// What this place may be off by although its own distance cannot show it, from what its sources are:
  /// beside a mask, or where elements are taken to places that were chosen by values, which a sketch misses
  /// once in 16 times. 0: its distance shows all.
  double unseen(const Place& place) const;

  /// Of a normalisation or the gradient of a sum, and of what was made of it element by element.
  Common common(const Place& place) const;

  /// Rounding of one kernel with results of this unit roundoff.
  double own_rounding(double unit) const;

  /// Of calls that are not seen one by one, where what goes in is off by so much (R3).
  double through_calls(double error, double unit) const;

  /// What one rounding of each call becomes through a whole pass, forward and backward (R3).
  double through_pass(double unit) const;

  /// What the result of a whole model is off by, at most: half of the digits are lost where the problem is as
  /// ill-conditioned as can be solved in this precision (its condition number is 1 / sqrt(u)), and nobody
  /// trains a model beyond that.
  static double half_of_digits(double unit) { return std::sqrt(unit); }

  /// With elements beyond `mask`: beside them nothing of the others is left in norms and sketches.
  bool is_masked(const Tensor& tensor) const;

  /// The size that tensors which belong together are measured against at least (R7); 0 of none.
  double floor_of(std::vector<double> sizes) const;
};

/// Whether results of this unit roundoff are coarser than float32.
bool is_coarse(double unit);

/// As how many independent errors those of a tensor count in its norm and mean. Each element x is off by a
/// part e of itself, so the norm is off by e sqrt(sum x^4) / sum x^2: of n normal numbers, sum x^4 is
/// 3 (sum x^2)^2 / n. Their largest is about sqrt(2 ln n) times the typical one (S. Coles, An Introduction to
/// Statistical Modeling of Extreme Values, 2001, section 3.1); where it is more, few large elements have most
/// of the errors.
double independent_errors(const Tensor& tensor);

/// Data that no recorded call made: read, normalised, augmented, in float32 (R3); of 16 bits, rounded once in
/// the end (R4).
Place given_data(const Tensor& tensor);

}  // namespace msprobe::verdict

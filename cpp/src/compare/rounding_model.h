// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How far off a result may be when nothing is wrong: what the inputs are off by, times what the operator
/// makes of it, plus the rounding of the call itself. All sizes are relative L2 distances
/// (msprobe/metrics.h).

#include <optional>
#include <span>

#include "base/non_finite.h"
#include "msprobe/metrics.h"
#include "msprobe/operators.h"

namespace msprobe::compare {

/// The constants of the model, each with where it comes from. docs/verdict.md has the same table with the
/// test that shows what each decides.
struct RoundingModel {
  /// The largest rounding errors of one kernel, in unit roundoffs per element. Another kernel or device
  /// rounds otherwise at the end (1), in the middle (1 or 2), and evaluates functions to 2 or 4 units (the
  /// CUDA and SYCL specifications allow as much for exp, sin, tanh); RoundingNoise of tests/faults has 4.6.
  double own = 5;
  /// The same in 16 bits: kernels compute in float32 and round the result once, so two of them are apart by
  /// one unit in the last place, two roundoffs, at most. RoundingNoise has 1.3.
  double own_of_coarse = 2;
  /// A sum of n terms in its own precision is off by about this times sqrt(n) unit roundoffs (N. Higham, T.
  /// Mary: A new approach to probabilistic rounding error analysis, SIAM J. Sci. Comput. 41, 2019).
  double sum = 0.5;
  /// What random errors leave alone, norm and mean, moves by this much at most, in unit roundoffs: a kernel
  /// that truncates is off by half a unit in one direction.
  double bias = 0.5;
  /// A result is suspected when even the least it can be off by is so many times what the model allows.
  double beyond = 3;
  /// From this share of a distance on, Distance::peak, it is one of few elements. Of independent errors about
  /// three in a million come there.
  double few_elements = 0.98;
  /// Tensors below this many elements are few elements.
  double many_elements = 64;
  /// What comes of another argument, or of a call that one run has not, shows when it is so many times what
  /// is expected without: there is a reason to look, so this needs no outlier.
  double visible = 2;
  /// The same where one function stands in the place of another in the forward pass: its own rounding is
  /// known and nothing comes on top of it. Healthy pairs make less than half of what is expected.
  double visible_of_one = 0.9;
  /// Of the share e of elements that an error takes over a jump of the derivative, the result is off by
  /// sqrt(e).
  double kink = 1;
  double negligible_gradient = metrics::kNegligibleGradient;
  /// An element beyond this is a mask: beside it nothing of the other elements is left in norms and sketches.
  double mask = 1e4;
  /// A model that is computed once, on equal weights and data, is not farther off than so many unit roundoffs
  /// of the coarsest dtype in it; its gradients four times as much. Rounding of 4 units in every call of the
  /// models of tests/faults makes 20 and 100.
  double most_roundings = 256;
  /// Nor are its gradients off by more than this share in a coarse dtype: an eighth of a bit of bfloat16 for
  /// each of its eight, as a batch that is divided otherwise makes.
  double most_of_gradients = 1.0 / 16;
  /// A sketch depends on the order of the elements, and it sees less of a difference that is the same for
  /// many neighbours, as that of a bias: where elements are moved it may see so many times as much
  /// afterwards; no more than `most_moved` is explained by that.
  double moved = 16;
  double most_moved = 0.05;
  /// So many moves of an element to a neighbour are too few to reckon with: errors e of n elements make n e.
  double few_moves = 0.01;
  /// A power makes so many times the relative error of each element: the exponent. The largest in common use
  /// is the cube of GELU's approximation by tanh.
  double power = 3;
  /// What a recurrent network makes of an error, of its inputs or its own, through all its time steps.
  double recurrent = 3;
  /// Growth where nothing is known of an operator: at most this.
  double most_growth = 100;
  /// Growth of several calls of which only the ends are seen, as of a module, and so many roundings more: a
  /// single call of the healthy runs makes 2 of 1 at most.
  double composite = 3;
};

inline constexpr RoundingModel kRoundingModel;

/// One tensor that goes into a call.
struct Influence {
  metrics::Distance distance;
  double count = 1;       // elements
  double norm = 0;        // L2, of the reference
  double typical = 0;     // root mean square
  double largest = 0;     // magnitude
  double last = 1;        // last extent of its shape
  double unit = 0;        // unit roundoff of its dtype in the reference
  bool is_saved = false;  // of the forward call, for a backward one
  void weigh(double factor) {
    norm *= factor;
    typical *= factor;
    largest *= factor;
  }

  /// What it may be off by besides, and no sketch shows: see moved_element().
  double hidden = 0;
  /// Another parameter or another call made some of it: the rows are off by errors of one origin.
  bool is_shared = false;
};

/// One tensor that comes out of a call.
struct Result {
  double count = 1;
  double norm = 0;
  double typical = 0;
  double largest = 0;
  double unit = 0;  // unit roundoff of its dtype in the reference; 0: integers and bools
  bool is_backward = false;
  /// How far the call moved its first input, as a part of it, where it updates that; infinite: not known.
  double step = kInfinity;
};

/// What a result may be off by.
struct Allowance {
  double magnitude = 0;  // relative L2 distance
  double bias = 0;       // of norm and mean
  double expected = 0;   // the magnitude, by what the inputs are most likely off by
  /// What a single element may be off by where nothing that goes in differs; 0: something does.
  double element = 0;
  double cancelled = 1;  // how much smaller the result is than the terms that it is a sum of
};

/// `noise`: the largest distance that was seen before in this step, for what a mask drowns.
Allowance allowance(const operators::Row& traits, const Result& result, std::span<const Influence> influences,
                    double noise);

/// The rounding of one kernel with results of this unit roundoff, as a relative distance.
double own_rounding(double unit);

/// Of calls that are not seen one by one: where what goes in is off by `high` at most and most likely by
/// `likely`.
Allowance composite(double high, double likely, double unit);

/// What nothing led to: data and weights. They are read, not computed, and rounded once.
Allowance source_allowance(const Result& result);

/// Of a tensor in the reference.
Result result_of(const metrics::TensorFacts& reference, bool is_backward = false);

/// By which factor a distance is beyond what is allowed; 1 and more is suspect. Infinite for what has no
/// measure.
double beyond(const metrics::Distance& distance, const Allowance& allowed);

/// The same for what comes of something that is known to differ.
double visible(const metrics::Distance& distance, const Allowance& allowed);

/// What no sketch shows where elements are taken to places that were chosen by values: one that is moved to a
/// neighbour is added to the same sum with the same sign once in 16 times. 0 where no such move is expected,
/// and where sums over the elements show it. A relative distance.
double moved_element(const operators::Row& traits, const Result& result,
                     std::span<const Influence> influences);

/// As how many independent errors those of a tensor count in its norm and mean. The largest of n normal
/// numbers is about sqrt(2 ln n) times the typical one (S. Coles, An Introduction to Statistical Modeling of
/// Extreme Values, 2001, section 3.1); where it is more, few large elements have most of the errors.
double independent_errors(double count, double norm, double largest);

/// How many terms each element of the result sums, by the shapes.
double terms_of(const operators::Row& traits, const Result& result, std::span<const Influence> influences);

}  // namespace msprobe::compare

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What an operator does to an error that comes in. One table for functions, methods, modules and operators
/// of every framework: names are compared without underscores around them and without regard to case.

#include <cstdint>
#include <string_view>

namespace msprobe::compare {

/// How a relative error of an input shows in the result (N. Higham, Accuracy and Stability of Numerical
/// Algorithms, 2002: condition numbers, sections 1.6 and 3).
enum class Growth : std::uint8_t {
  kUnknown,      // at most by as much as the result is smaller than the input
  kMoving,       // elements are moved, chosen or cast: a part may be farther off than the whole
  kSum,          // sums and differences: absolute errors add up
  kElementwise,  // products and functions of single elements with a moderate slope
  kPower,        // the same with a steep one: the largest elements have most of the result, and of its errors
  kRoot,         // the smallest elements have most of the errors of the result
  kProduct,      // sums of products, over a common extent
  kScaleFree,    // normalisations: the size of the input is divided away, less what its mean takes
  kExponential,  // an absolute error becomes a relative one: exp, softmax, sin
  kLogarithm,    // a relative error becomes an absolute one: log, cross entropy
  kRecurrent,    // products and functions, again and again
  kAttention,    // products, an exponential, products
  kRandom,       // draws random numbers
  kUpdate        // a step of which each element is divided by its own size, as that of Adam
};

/// Which tensors of the forward call its backward call computes with.
enum class Saved : std::uint8_t {
  kAll,      // inputs and results: what is not known may need either
  kFactors,  // inputs, less a bias that is added at the end: products, normalisations
  kNothing   // the derivative of a linear function does not depend on where it is taken
};

struct OperatorTraits {
  Growth growth = Growth::kUnknown;
  /// Its derivative jumps: an error of the input may take elements to the other side (relu, max).
  bool has_kink = false;
  Saved saved = Saved::kAll;
  /// Its derivative takes elements to the places that were chosen by their values: another choice moves one
  /// to a neighbour (max_pool).
  bool chooses = false;
};

/// `name`: of a function ("Functional.relu" without its prefix: "relu"), or the class of a module ("ReLU").
OperatorTraits traits_of(std::string_view name);

/// Whether it takes parts of tensors or puts them together, and computes nothing.
inline bool only_moves(const OperatorTraits& traits) { return traits.growth == Growth::kMoving; }

}  // namespace msprobe::compare

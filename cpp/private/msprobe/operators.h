// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What is known of operators: one catalogue for functions, methods, modules and kernels of every framework
/// (cpp/src/operators/catalogue.inc). The verdict, the search for fragile calls, operators that are run again
/// and the dump read it.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/export.h"

namespace msprobe::operators {

/// What an error of an argument becomes in the result (N. Higham, Accuracy and Stability of Numerical
/// Algorithms, 2002: condition numbers, sections 1.6 and 3).
enum class Gain : std::uint8_t {
  kOther,        // of several steps, or ill-conditioned: at most by as much as the result is smaller
  kNone,         // no number of the arguments is in it: constants, sizes
  kMoves,        // elements are moved, chosen by number or cast: a part may be farther off than the whole
  kPicks,        // each element is one of the arguments', its magnitude or a limit
  kSteps,        // the result jumps: rounding, signs, remainders
  kDecides,      // flags, places and counts
  kDraws,        // random numbers
  kSum,          // sums and differences: absolute errors add up
  kElementwise,  // products and functions of single elements with a moderate slope
  kPower,        // the same with a steep one: the largest elements have most of the result, and of its errors
  kRoot,         // the smallest elements have most of the errors of the result
  kProduct,      // sums of products, over a common extent
  kScaleFree,    // normalisations: the size of the argument is divided away, less what its mean takes
  kExponential,  // an absolute error becomes a relative one: exp, softmax, sin
  kLogarithm,    // a relative error becomes an absolute one: log, cross entropy
  kRecurrent,    // products and functions, again and again
  kAttention,    // products, an exponential, products
  kSamples,      // numbers of the first argument, at places that the second one has, from -1 to 1
  kUpdate        // a step of which each element is divided by its own size, as that of Adam
};

/// Which tensors of the forward call its backward call computes with.
enum class Keeps : std::uint8_t {
  kAll,      // arguments and results: what is not known may need either
  kFactors,  // arguments, less a bias that is added at the end: products, normalisations
  kNothing   // the derivative of a linear function does not depend on where it is taken
};

/// What the condition number of a call is measured by (docs/perturb.md).
enum class Condition : std::uint8_t {
  kOther,  // nothing is known of it
  kNone,   // it moves numbers, decides about them or makes some: rounding has no part in it
  kSum,
  kDifference,
  kProduct,  // sums of products
  kSoftmax,
  kExponential,
  kLogarithm,
  kQuotient,
  kRoot,  // a root or a reciprocal
  kNorm,
};

/// Of how many numbers an element of the result is a sum. Extents are those of the tensors that go in, in
/// their order; `of` is the row's.
enum class Terms : std::uint8_t {
  kRatio,             // elements of the largest argument for each of the result
  kPair,              // two neighbours
  kLast,              // the last extent of tensor `of`
  kContraction,       // [m, k] and [k, n] to [m, n]: k
  kChain,             // products one after the other
  kBatched,           // over batch and last extent of tensor 1
  kBilinear,          // last extents of tensors 0 and 1
  kKernel,            // of a convolution: tensor 1 without its first extent
  kTransposedKernel,  // tensor 1 without its second one
  kDim,               // the extent that `dim` names
  kNormalized,        // the product of `normalized_shape`
  kChannel,           // all elements of a channel
  kGroup,             // all elements of a group of channels
  kAttention          // features of a head, then keys
};

/// One operator.
struct Row {
  std::string_view name;  // the first of its names; empty: it is not known
  Gain gain = operators::Gain::kOther;
  Keeps keeps = Keeps::kAll;
  Condition condition = Condition::kOther;
  Terms terms = Terms::kRatio;
  std::uint8_t terms_of = 0;          // a tensor, for kLast
  std::string_view terms_argument;    // whose value decides, for kDim, kNormalized and kGroup; empty: none
  std::int8_t terms_position = -1;    // where that stands
  std::int8_t inplace_position = -1;  // of the argument `inplace`; -1: it has none
  bool overwrites = false;            // "copy_": what its first argument held does not matter
  bool writes_places = false;         // "index_put_": writes some elements of its first argument, reads none
  std::string_view writes;            // arguments that are only written: names or positions, with commas
  std::string_view updates;           // arguments that are read and written
  std::string_view how;               // arguments that choose how it is computed, and not what
  std::string_view source;            // names the one process that reads the first argument: broadcast
  bool has_kink = false;              // its derivative jumps
  bool chooses = false;               // its derivative goes to places that were chosen by values
  bool sums_products = false;         // linear in each argument
  bool rounds_between = false;        // several kernels, which round to the dtype of the result
  bool adds_first = false;            // the first argument is added
  bool commutes = false;              // its first two arguments may stand in any order
  bool is_transformed = false;        // kernels may compute it in a transformed domain
  bool fills = false;                 // the result may hold a number that was passed
  bool is_uninitialised = false;      // the result is whatever the memory held before
  bool is_nondeterministic = false;   // another rounding each time on a device
  bool works_on_lists = false;        // of the name, "_foreach_"
  bool is_in_place = false;           // of the name: "add_", "__iadd__"

  bool is_known() const noexcept { return !name.empty(); }
  /// Whether a list of arguments, as of `writes`, has this name or position.
  static bool names(std::string_view list, std::string_view argument) noexcept;
  /// It takes parts of tensors or puts them together, and computes nothing.
  bool only_moves() const noexcept { return gain == operators::Gain::kMoves; }
};

/// `function`: the name of a function, with or without what stands before its last dot, or the class of a
/// module: "Torch.add_", "softmax", "Conv2d", "_foreach_add", "Distributed.scatter". Of a name that is not in
/// the catalogue no more than `is_in_place` is known. Thread-safe.
MSPROBE_API Row find(std::string_view function);

/// As in the catalogue: "other", "moves", "scale_free", ...
MSPROBE_API std::string_view gain_name(Gain gain) noexcept;
/// "other", "none", "difference", ...
MSPROBE_API std::string_view condition_name(Condition condition) noexcept;

/// All rows, in the order of the file. They live as long as the program.
MSPROBE_API std::span<const Row> rows();

/// All names, each once, in the order of the file: without underscores, in small letters. A name that
/// stands twice does so here as well.
MSPROBE_API std::span<const std::string_view> names();

/// Problems of the catalogue itself, a sentence each: double names, words that have no meaning.
MSPROBE_API std::vector<std::string> problems();

/// The shapes of a call, and the value of the argument that its row names, as far as they are known.
struct CallShape {
  std::span<const std::vector<std::int64_t>> tensors;  // that go in
  double result = 1;                                   // elements of the result
  std::optional<std::int64_t> number;                  // of the argument, where it is one number
  std::vector<std::int64_t> numbers;                   // where it is several
};

/// Of how many terms an element of the result is the sum; 1 and more.
MSPROBE_API double term_count(const Row& row, const CallShape& shape);

/// The same of the gradient of an argument with so many elements: all products of a sum of products occur in
/// each of its gradients, too.
inline double term_count_of_gradient(double forward, double result, double gradient) {
  const double all = gradient > 0 ? forward * result / gradient : forward;
  return all > forward ? all : forward;
}

}  // namespace msprobe::operators

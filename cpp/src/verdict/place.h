// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A place is what both runs have: data, a parameter, what goes into a call or comes out of it, a gradient,
/// the state of an optimizer. It is so far off, and has sources: other places, with the way in which their
/// errors arrive. What it may be off by follows from that alone (model.h).
///
/// A place knows nothing of files. Its tensor may be joined from the shards of several ranks, and the runs
/// may be of two frameworks, as long as somebody can say how far off it is and what it is made of.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/non_finite.h"
#include "msprobe/metrics.h"
#include "msprobe/operators.h"

namespace msprobe::verdict {

inline constexpr std::uint32_t kNoPlace = 0xffffffff;

/// How the errors of its sources arrive at a place.
enum class Rule : std::uint8_t {
  kSameValue,  // R1: it is the very value of its source
  kOperator,   // R2: one operator of the catalogue made it of its sources
  kChain,      // R2, call by call: calls of one run made it, and their errors are expected, not measured
  kOpaque,     // R3: several calls made it, of which only the ends are seen
  kOrigin,     // R4: nothing computed it: data, and weights before the first step
  kUpdate,     // R6: an optimizer moved it by a step
  kUnknown     // what it is made of cannot be compared: it may be off by anything
};
// R5, discrete values, and R7, what is negligible, are parts of these; R8 is of what has no distance
// (effects.h).

/// A tensor of the reference, as far as the error model looks at it.
struct Tensor {
  double count = 1;    // elements
  double norm = 0;     // L2
  double typical = 0;  // root mean square
  double largest = 0;  // magnitude
  double least = 0;    // the same, of numbers of one sign; 0: of both
  double last = 1;     // last extent of its shape
  double unit = 0;     // unit roundoff of its dtype; 0: integers and flags
};

Tensor tensor_of(const metrics::TensorFacts& reference, double last_extent = 1);

/// What all elements of a channel of so many are off by together, since a normalisation took the sums over
/// the channel out of each: by the rounding of these; or since they are the gradient of one sum, as of a
/// pooling. A sum over the channel does not average it out.
struct Common {
  double error = 0;
  double channel = 0;
};

/// Another place that this one is made of.
struct Source {
  metrics::Distance distance;
  Tensor tensor;
  bool is_saved = false;       // of the forward call, for a backward one
  bool is_negligible = false;  // it is measured against more than its own size
  bool is_shared = false;      // an optimizer or other calls made some of its errors: all rows are off alike
  double aligned = 1;  // how many times more such an error counts that lies along the rows of a weight
  /// What it may be off by besides, where its distance cannot show it: beside a mask, or where sketches miss
  /// single elements.
  double unseen = 0;
  Common common;
  std::uint32_t row = kNoPlace;  // whoever made the place knows its name by it

  /// What to reckon with.
  double error() const noexcept { return distance.expected > unseen ? distance.expected : unseen; }
};

inline Source source_of(const metrics::Distance& distance, const Tensor& tensor,
                        std::uint32_t row = kNoPlace) {
  Source source;
  source.distance = distance;
  source.tensor = tensor;
  source.row = row;
  return source;
}

/// Of what is off by so much, and of which no more is known.
inline metrics::Distance of_error(double error) {
  return {.value = error, .low = error, .high = error, .expected = error, .bias = error, .equal = error == 0};
}

struct Place {
  Rule rule = Rule::kOrigin;
  Tensor tensor;
  operators::Row by;  // kOperator
  bool is_backward = false;
  double terms = 1;           // kOperator: numbers that each element is the sum of
  double channel = 0;         // of a normalisation: elements that share its sums; 0: no other
  double uneven = 1;          // of a normalisation: how many times more its small channels are off; or less
  double step = kInfinity;    // kUpdate: how far the reference moved it, as a part of it; infinite: not known
  double extra_rounding = 0;  // kSameValue, and what is moved: in unit roundoffs, where it was scaled or cast
  int calls = 1;              // kOpaque: 2: through a whole pass, the rule twice
  double smaller = 1;         // kOpaque: how many times smaller it is than the terms that it is a sum of
  std::vector<Source> sources;
  std::optional<Source>
      inside;  // the calls inside of a module, of which this is the result: by the rule kOpaque
};

inline Place place_by(Rule rule, const Tensor& tensor, std::vector<Source> sources = {}) {
  Place place;
  place.rule = rule;
  place.tensor = tensor;
  place.sources = std::move(sources);
  return place;
}

/// Of these, by one call of this class.
inline Place place_by(operators::Gain gain, const Tensor& tensor, std::vector<Source> sources) {
  Place place = place_by(Rule::kOperator, tensor, std::move(sources));
  place.by.gain = gain;
  return place;
}

/// By several calls, of which only the ends are seen, and what goes in is off by so much. `calls`: 2: by a
/// whole pass.
inline Place place_through(double error, const Tensor& tensor, int calls = 1) {
  Place place = place_by(Rule::kOpaque, tensor, {source_of(of_error(error), tensor)});
  place.calls = calls;
  return place;
}

}  // namespace msprobe::verdict

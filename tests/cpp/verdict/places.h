// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Places written by hand: 64 rows of 64 normal numbers, unless a test says otherwise.

#include <initializer_list>
#include <string_view>
#include <utility>

#include "verdict/model.h"
#include "verdict/place.h"

namespace places {

using namespace msprobe::verdict;
using msprobe::metrics::Distance;

inline constexpr double kFloat32 = 0x1p-24, kBFloat16 = 0x1p-8, kFloat16 = 0x1p-11;

inline Tensor normal(double unit = kFloat32, double typical = 1, double count = 4096) {
  Tensor tensor;
  tensor.count = count;
  tensor.typical = typical;
  tensor.norm = typical * std::sqrt(count);
  tensor.largest = 4 * typical;
  tensor.last = 64;
  tensor.unit = unit;
  return tensor;
}

/// A measured distance: as far off as it says.
inline Distance off_by(double relative, double bias = 0) {
  return {.value = relative,
          .low = relative,
          .high = relative,
          .expected = relative,
          .bias = bias,
          .norm = 64,
          .equal = relative == 0};
}

inline Source source(double error = 0, Tensor tensor = normal()) { return source_of(off_by(error), tensor); }

inline Source saved(double error, Tensor tensor = normal()) {
  Source one = source(error, tensor);
  one.is_saved = true;
  return one;
}

inline Place made_by(std::string_view name, std::initializer_list<Source> sources, Tensor result = normal()) {
  Place place;
  place.rule = Rule::kOperator;
  place.by = msprobe::operators::find(name);
  place.tensor = result;
  place.sources = sources;
  return place;
}

inline Place backward_of(std::string_view name, std::initializer_list<Source> sources,
                         Tensor result = normal()) {
  Place place = made_by(name, sources, result);
  place.is_backward = true;
  return place;
}

inline Place of(Rule rule, std::initializer_list<Source> sources, Tensor result = normal()) {
  Place place;
  place.rule = rule;
  place.tensor = result;
  place.sources = sources;
  return place;
}

/// Of the model as it is.
inline const Model kModel;
inline Tolerance tolerance(const Place& place) { return kModel.tolerance(place); }
inline double excess(const Distance& distance, const Tolerance& allowed) {
  return kModel.excess(distance, allowed);
}
inline double unseen(const Place& place) { return kModel.unseen(place); }
inline Common common(const Place& place) { return kModel.common(place); }

inline bool is_suspect(const Place& place, const Distance& distance) {
  return excess(distance, tolerance(place)) >= 1;
}

}  // namespace places

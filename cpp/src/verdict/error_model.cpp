// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numbers>

#include "verdict/model.h"
#include "verdict/operator_error.h"

namespace msprobe::verdict {

namespace {

const double kFloat32 = metrics::unit_roundoff(DType::kFloat32);

// R1. What was scaled or cast on the way was rounded once more.
Tolerance of_same_value(const Model& model, const Place& place) {
  Tolerance allowed;
  const double errors = std::sqrt(std::max(place.tensor.count, 1.0));
  for (const Source& one : place.sources) {
    const double high = std::max(one.distance.high, one.unseen);
    allowed.magnitude = std::max(allowed.magnitude, high);
    // A coarser dtype rounds the sums that show a bias: in a finer one, all of the distance may be.
    const bool is_cast = one.tensor.unit != place.tensor.unit;
    const double bias = one.distance.most_bias() + high / errors;
    allowed.bias = std::max({allowed.bias, bias, is_cast && model.cast ? high : 0});
    allowed.of_sources.push_back({1, high});
  }
  allowed.own = place.extra_rounding * place.tensor.unit;
  allowed.magnitude += allowed.own;
  allowed.bias += allowed.own;
  return allowed;
}

Tolerance of_chain(const Place& place) {
  Tolerance allowed;
  for (const Source& one : place.sources) {
    allowed.magnitude = std::max(allowed.magnitude, kMargin * one.error());
    allowed.bias = std::max(allowed.bias, kMargin * one.distance.most_bias());
    allowed.of_sources.push_back({kMargin, one.error()});
  }
  return allowed;
}

// R3
Tolerance of_opaque(const Model& model, const Place& place) {
  Tolerance allowed;
  double error = 0;
  const double gain = std::pow(model.opaque, place.calls) * place.smaller;
  for (const Source& one : place.sources) {
    error = std::max(error, one.error());
    allowed.of_sources.push_back({gain, one.error()});
  }
  if (place.tensor.unit == 0) {  // R5
    allowed.magnitude = allowed.bias = discrete(error);
    return allowed;
  }
  allowed.own = gain * model.own_rounding(place.tensor.unit);
  allowed.magnitude = allowed.bias = gain * error + allowed.own;
  return allowed;
}

// What is computed inside of a module may explain more than what goes into it.
Tolerance with_inside(const Model& model, Tolerance allowed, const Place& place) {
  if (!place.inside || !model.inside_of_module) return allowed;
  const double by_parts = model.through_calls(place.inside->error(), place.inside->tensor.unit);
  allowed.magnitude = std::max(allowed.magnitude, by_parts);
  allowed.bias = std::max(allowed.bias, by_parts);
  return allowed;
}

// R4. Data and weights are read, not computed, and rounded once.
Tolerance of_origin(const Model& model, const Place& place) {
  Tolerance allowed;
  const Tensor& tensor = place.tensor;
  allowed.own = model.own_rounding(tensor.unit);
  allowed.magnitude = allowed.own;
  allowed.bias = tensor.unit * by_unit(tensor.unit, model.bias, model.bias_of_coarse) +
                 allowed.own / std::sqrt(std::max(tensor.count, 1.0));
  allowed.element = by_unit(tensor.unit, model.element, model.element_of_coarse) * tensor.unit *
                    ratio(tensor.largest, tensor.norm);
  return allowed;
}

// R6. The first source is what is moved, the others make the step. Where a step is divided by the size of the
// gradient, elements that are exactly 0 but for rounding are moved in any direction, and nothing tells how
// many they are: two steps of each element at most.
Tolerance of_update(const Model& model, const Place& place) {
  Tolerance allowed = of_origin(model, place);
  const double errors = std::sqrt(independent_errors(place.tensor));
  double moved = 0;
  for (std::size_t i = 0; i < place.sources.size(); ++i) {
    const Source& one = place.sources[i];
    const double error = one.error();
    const bool is_moved = i == 0;
    allowed.of_sources.push_back({is_moved ? 1.0 : 0.0, error});
    if (error == 0) continue;
    allowed.element = 0;
    moved = place.step;
    if (!is_moved) continue;
    allowed.magnitude += error;
    allowed.bias += one.distance.most_bias() + error / errors;
  }
  allowed.own += moved;
  allowed.magnitude += moved;
  allowed.bias += 2 * moved / errors;
  return allowed;
}

}  // namespace

bool Model::is_masked(const Tensor& tensor) const { return tensor.unit > 0 && tensor.largest > mask; }

Tensor tensor_of(const metrics::TensorFacts& reference, double last_extent) {
  Tensor tensor;
  tensor.count = std::max(reference.count, 1.0);
  tensor.typical = reference.typical();
  tensor.norm = tensor.typical * std::sqrt(tensor.count);
  tensor.largest = reference.largest();
  const double min = reference.min.value_or(0), max = reference.max.value_or(0);
  if ((min > 0) == (max > 0)) tensor.least = std::min(std::abs(min), std::abs(max));
  tensor.last = last_extent;
  tensor.unit = metrics::unit_roundoff(reference.dtype);
  return tensor;
}

Tolerance Model::tolerance(const Place& place) const {
  switch (place.rule) {
    case Rule::kSameValue: return of_same_value(*this, place);
    case Rule::kOperator: return with_inside(*this, of_operator(*this, place), place);
    case Rule::kChain: return of_chain(place);
    case Rule::kOpaque: return of_opaque(*this, place);
    case Rule::kOrigin: return of_origin(*this, place);
    case Rule::kUpdate: return of_update(*this, place);
    case Rule::kUnknown: break;
  }
  Tolerance anything;
  anything.magnitude = anything.bias = kInfinity;
  return anything;
}

double Model::excess(const metrics::Distance& distance, const Tolerance& allowed) const {
  if (distance.equal) return 0;
  if (std::isinf(distance.low)) return std::isinf(allowed.magnitude) ? 0 : distance.low;
  if (allowed.magnitude == 0) {
    return distance.may_be_equal ? 0 : kInfinity;  // checksums may differ over equal statistics
  }
  const double magnitude = distance.low > 0 ? distance.low / (suspect * allowed.magnitude) : 0;
  const double bias = distance.bias > 0 ? distance.bias / (suspect * allowed.bias) : 0;
  const bool is_local = single_element && allowed.element > 0 && distance.peak >= few_elements;
  const double local = is_local ? distance.low / (suspect * allowed.element) : 0;
  return std::max({magnitude, bias, local});
}

double Model::excess_of_number(const metrics::Distance& distance, std::optional<double> error) const {
  const Tensor number{.unit = kFloat32};
  const Place place = error ? place_through(*error, number) : place_by(Rule::kOrigin, number);
  metrics::Distance magnitude = distance;
  magnitude.bias = 0;  // one number is all of its own bias
  return excess(magnitude, tolerance(place));
}

double Model::unseen(const Place& place) const {
  const Tensor& result = place.tensor;
  double error = 0;
  if (place.rule == Rule::kSameValue) {
    for (const Source& one : place.sources) error = std::max(error, one.unseen);
    return error;
  }
  if (result.norm <= 0 || !unseen_elements) return 0;
  // Nothing of the other elements is left in what was recorded.
  if (is_masked(result)) {
    const Tolerance allowed = tolerance(place);
    return std::isfinite(allowed.magnitude) ? allowed.magnitude : 0;
  }
  if (place.rule != Rule::kOperator) return 0;
  // Where a flag moved, a sketch of all in another order may miss it.
  if (result.unit == 0 && place.by.only_moves()) {
    for (const Source& one : place.sources) {
      if (one.tensor.count == result.count) error = std::max(error, one.error());
    }
  }
  // Errors e of n elements make n e moves to a neighbour. Errors of few elements, which are alike where they
  // come of one weight, may cancel in a sum of the sketch.
  const double one_moves = std::min(std::numbers::sqrt2 * result.largest / result.norm, 1.0);
  for (const Source& one : place.sources) {
    if (place.is_backward && place.by.chooses && one.distance.expected * one.tensor.count >= few_moves)
      return one_moves;
    if (one.is_saved || one.tensor.count != result.count) continue;
    const bool is_of_few = one.distance.peak >= few_elements && one.tensor.count > 1;
    const double hidden = is_of_few ? one.error() : place.is_backward ? one.unseen : 0;
    if (hidden > 0) error = std::max(error, std::min(gain_of(*this, place, one) * hidden, one_moves));
  }
  return error;
}

Common Model::common(const Place& place) const {
  return place.rule == Rule::kOperator ? common_of_operator(*this, place) : Common{};
}

double Model::own_rounding(double unit) const { return by_unit(unit, own, own_of_coarse) * unit; }

double Model::through_calls(double error, double unit) const { return opaque * (error + own_rounding(unit)); }

bool is_coarse(double unit) { return unit > kFloat32; }

double Model::through_pass(double unit) const { return opaque * opaque * own_rounding(unit); }

double Model::floor_of(std::vector<double> sizes) const {
  std::erase_if(sizes, [](double size) { return !(size > 0); });
  if (sizes.empty()) return 0;
  const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
  std::nth_element(sizes.begin(), middle, sizes.end());
  return negligible * *middle;
}

double independent_errors(const Tensor& tensor) {
  if (tensor.count <= 1 || tensor.largest <= 0 || tensor.norm <= 0) return std::max(tensor.count, 1.0);
  constexpr double kKurtosis = 3;  // of the normal distribution
  const double spread = std::pow(tensor.norm / tensor.largest, 2);
  return std::clamp(2 * std::log(tensor.count) * spread / kKurtosis, 1.0, tensor.count);
}

Place given_data(const Tensor& tensor) {
  return place_by(is_coarse(tensor.unit) ? Rule::kOrigin : Rule::kOpaque, tensor);
}

}  // namespace msprobe::verdict

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "compare/rounding_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/non_finite.h"
#include "msprobe/step_walk.h"

namespace msprobe::compare {
namespace {

constexpr RoundingModel kModel = kRoundingModel;
constexpr double kSmallestNormal = std::numeric_limits<double>::min();

double ratio(double a, double b) {
  return b > kSmallestNormal ? a / b : (a > kSmallestNormal ? kModel.most_growth : 1);
}

bool is_mask(const Influence& influence) { return influence.unit > 0 && influence.largest > kModel.mask; }

// Functions of single elements: a product with a small number is small, and no sum that cancels out.
bool is_by_element(const operators::Row& traits, const Result& result,
                   std::span<const Influence> influences) {
  const bool has_no_sum = traits.gain == operators::Gain::kElementwise ||
                          traits.gain == operators::Gain::kPower || traits.gain == operators::Gain::kRoot ||
                          traits.gain == operators::Gain::kExponential;
  return has_no_sum && std::none_of(influences.begin(), influences.end(), [&](const Influence& one) {
           return !one.is_saved && one.count > result.count;
         });
}

// How much smaller the result is than the terms it is a sum of, as if their signs were random.
double cancellation(const operators::Row& traits, const Result& result,
                    std::span<const Influence> influences) {
  if (!result.is_backward && is_by_element(traits, result, influences)) return 1;
  const bool sums_products = traits.gain == operators::Gain::kProduct || result.is_backward;
  double terms = 0;
  for (const Influence& one : influences) {
    if (one.is_saved || is_mask(one)) continue;  // what is masked is no term
    // A sum over the elements that come in: of n each for one that comes out, sqrt(n) times a typical one.
    terms = std::max(terms, one.typical * std::sqrt(std::max(one.count / result.count, 1.0)));
  }
  if (sums_products && influences.size() >= 2) {
    // Products of two of them, over the common extent.
    double largest = 0;
    for (std::size_t i = 0; i < influences.size(); ++i) {
      for (std::size_t k = i + 1; k < influences.size(); ++k) {
        if (influences[i].is_saved && influences[k].is_saved) continue;
        if (is_mask(influences[i]) || is_mask(influences[k])) continue;
        const double extent = std::sqrt(influences[i].count * influences[k].count / result.count);
        largest = std::max(largest,
                           influences[i].typical * influences[k].typical * std::sqrt(std::max(extent, 1.0)));
      }
    }
    if (traits.gain == operators::Gain::kProduct) {
      terms = largest;
      // The bias of a linear layer in backward: a plain sum of what comes in.
      if (result.is_backward) {
        for (const Influence& one : influences) {
          if (!one.is_saved) {
            terms = std::max(terms, one.typical * std::sqrt(std::max(one.count / result.count, 1.0)));
          }
        }
      }
    }
  }
  return std::clamp(ratio(terms, result.typical), 1.0, 1e9);
}

// How many times the relative error of this input shows in the result.
double growth(const operators::Row& traits, const Result& result, const Influence& one, double cancelled) {
  const double smaller = ratio(one.norm, result.norm);
  if (result.is_backward) {
    if (traits.only_moves()) return std::max(smaller, 1.0);
    if (traits.gain == operators::Gain::kRecurrent) return std::max(kModel.recurrent, cancelled);
    return std::max({2.0, one.is_saved ? 1.0 : std::min(smaller, kModel.most_growth), cancelled});
  }
  switch (traits.gain) {
    case operators::Gain::kMoves:
    case operators::Gain::kSum: return std::max(smaller, 1.0);
    case operators::Gain::kElementwise:
    case operators::Gain::kScaleFree: return 2;
    case operators::Gain::kPower: return kModel.power;
    // An element that is a part e of the tensor, and off by as much, is a part sqrt(e) of the roots.
    case operators::Gain::kRoot: return std::max(2.0, 1 / std::sqrt(one.distance.expected));
    case operators::Gain::kProduct: return std::max(cancelled, 1.0);
    case operators::Gain::kExponential: return std::max(2.0, is_mask(one) ? 2.0 : 2 * one.typical);
    case operators::Gain::kLogarithm:
      return std::clamp(2 * ratio(one.typical, result.typical), 2.0, kModel.most_growth);
    case operators::Gain::kRecurrent: return kModel.recurrent;
    case operators::Gain::kAttention:
      return std::clamp(4 * one.typical * one.typical, 2.0, kModel.most_growth);
    case operators::Gain::kDraws: return std::max(smaller, 1.0);
    case operators::Gain::kUpdate: return kInfinity;
    case operators::Gain::kNone:
    case operators::Gain::kPicks:
    case operators::Gain::kSteps:
    case operators::Gain::kDecides:
    case operators::Gain::kOther: return std::clamp(smaller, 1.0, kModel.most_growth);
  }
  return 1;
}

// How many independent errors the result has that count. Those of a power are in its largest elements: with
// errors e of each element x, the norm moves by sum(e x^2) / |x|^2, at most e max(x) / |x|.
double errors_of(const operators::Row& traits, const Result& result, const Influence& one) {
  // A part of a tensor, or one that is repeated in part, may have most of the errors.
  if (traits.only_moves() && one.count != result.count) return 1;
  double errors = independent_errors(one.count, one.norm, one.largest);
  const double kept = independent_errors(result.count, result.norm, result.largest);
  // Of a sum there are as many as there are results.
  errors = result.is_backward ? std::min(errors, kept) : errors * kept / result.count;
  if (traits.gain != operators::Gain::kPower || result.largest <= 0) return std::max(errors, 1.0);
  return std::clamp(std::pow(result.norm / result.largest, 2), 1.0, errors);
}

// A cast to a coarser dtype, with neighbours 2u apart: an error e takes a share of e / 2u of the elements to
// the other neighbour, which is off by 2u. Together sqrt(2 u e); where e is beyond u, all are rounded anyhow.
double rounded_otherwise(const operators::Row& traits, const Result& result, const Influence& one,
                         double error) {
  const bool is_cast = traits.only_moves() && one.unit > 0 && one.unit < result.unit;
  return is_cast ? std::sqrt(2 * result.unit * std::min(error, result.unit)) : 0;
}

double own_roundings(double unit) {
  return unit > metrics::unit_roundoff(DType::kFloat32) ? kModel.own_of_coarse : kModel.own;
}

// Sums are kept in float32 at least, whatever the dtype of the result.
double sum_roundings(double terms, double unit) {
  const double kept = metrics::unit_roundoff(DType::kFloat32);
  return kModel.sum * std::sqrt(terms) * (unit > kept ? kept / unit : 1);
}

// How many times a rounding of its own shows in a result that is smaller than its terms. Logarithms of sums
// of exponentials are kept in float32 at least until they are rounded to the dtype of the result.
double lost_units(const operators::Row& traits, const Result& result, double unit, double cancelled) {
  if (traits.gain != operators::Gain::kLogarithm || result.is_backward) return cancelled;
  const double kept = metrics::unit_roundoff(DType::kFloat32);
  return unit > kept ? std::max(1.0, cancelled * kept / unit) : cancelled;
}

}  // namespace

double terms_of(const operators::Row& traits, const Result& result, std::span<const Influence> influences) {
  const bool is_product =
      traits.gain == operators::Gain::kProduct || traits.gain == operators::Gain::kAttention;
  double terms = 1;
  for (const Influence& one : influences) {
    if (is_product) terms = std::max(terms, one.last);
    if (!one.is_saved || is_product) terms = std::max(terms, one.count / std::max(result.count, 1.0));
  }
  return terms;
}

namespace {

// The gradient of what was repeated or looked up is the sum over all its uses.
bool is_sum_of_moved(const Result& result, std::span<const Influence> influences) {
  return result.is_backward && std::any_of(influences.begin(), influences.end(), [&](const Influence& one) {
           return !one.is_saved && one.count > result.count;
         });
}

}  // namespace

namespace {

// The first influence is what is updated, the others make the step. Elements that are nothing but rounding
// make a full step in any direction: two steps at most, of each element, and `beyond` allows for three.
Allowance allowance_of_update(const Result& result, std::span<const Influence> influences) {
  Allowance allowed = source_allowance(result);
  const double errors = std::sqrt(independent_errors(result.count, result.norm, result.largest));
  double step = 0;
  for (const Influence& one : influences) {
    const double error = one.distance.expected;
    if (error == 0) continue;
    allowed.element = 0;
    step = result.step;
    if (&one != influences.data()) continue;
    allowed.magnitude += error;
    allowed.bias += one.distance.bias + error / errors;
  }
  allowed.magnitude += step;
  allowed.bias += 2 * step / errors;
  allowed.expected = allowed.magnitude;
  return allowed;
}

}  // namespace

Allowance allowance(const operators::Row& traits, const Result& result, std::span<const Influence> influences,
                    double noise) {
  Allowance allowed;
  double unit = result.unit, kink = 0, discrete = 0;
  const double cancelled = cancellation(traits, result, influences);
  allowed.cancelled = cancelled;
  if (traits.gain == operators::Gain::kUpdate) return allowance_of_update(result, influences);
  for (const Influence& one : influences) {
    // Under autocast gradients are computed in the dtype of the result, and cast back.
    if (result.is_backward) unit = std::max(unit, one.unit);
    double high = std::max(one.distance.expected, one.hidden);
    if (is_mask(one)) high = std::max(high, noise);
    if (high == 0) continue;
    const double likely = is_mask(one) ? std::max(one.distance.value, noise) : one.distance.value;
    const double grown = growth(traits, result, one, cancelled);
    const double cast = rounded_otherwise(traits, result, one, high);
    allowed.magnitude += grown * high + cast;
    if (traits.only_moves())
      allowed.magnitude += std::min((kModel.moved - 1) * high, kModel.most_moved) * grown;
    allowed.expected += grown * likely + rounded_otherwise(traits, result, one, likely);
    // Independent errors of n elements move a norm or a mean by sqrt(n) times less.
    const double errors = errors_of(traits, result, one);
    // What the call that made it rounded is not shared.
    const double shared = one.is_shared ? std::max(high - own_rounding(one.unit), 0.0) : 0;
    allowed.bias += grown * (one.distance.bias + shared / std::sqrt(std::min(errors, one.last)) +
                             (high - shared) / std::sqrt(errors)) +
                    cast / std::sqrt(errors);
    if (one.unit > 0) discrete = std::max(discrete, high);
    if (one.unit > 0 && (one.is_saved || !result.is_backward)) kink = std::max(kink, high);
  }
  if (result.unit == 0) {  // integers and bools: elements that were near a limit are on the other side of it
    allowed.magnitude += kModel.kink * std::sqrt(std::min(discrete, 1.0)) * 2;
    allowed.bias = allowed.expected = allowed.magnitude;
    return allowed;
  }
  if (traits.has_kink && result.is_backward) {
    allowed.magnitude += kModel.kink * std::sqrt(std::min(kink, 1.0));
    allowed.expected += kModel.kink * std::sqrt(std::min(kink, 1.0));
  }
  if (!traits.only_moves() || is_sum_of_moved(result, influences)) {
    const double repeated = traits.gain == operators::Gain::kRecurrent ? kModel.recurrent : 1;
    const double rounding =
        repeated * own_roundings(unit) + sum_roundings(terms_of(traits, result, influences), unit);
    const double lost = unit * lost_units(traits, result, unit, cancelled);
    if (allowed.magnitude == 0 && result.count >= kModel.many_elements) {
      allowed.element = rounding * lost * ratio(result.largest, result.norm);
    }
    allowed.magnitude += rounding * lost;
    allowed.expected += rounding * lost;
    allowed.bias += lost * (kModel.bias + rounding / std::sqrt(std::max(result.count, 1.0)));
  }
  return allowed;
}

double moved_element(const operators::Row& traits, const Result& result,
                     std::span<const Influence> influences) {
  if (!result.is_backward || result.norm <= 0) return 0;
  bool moves = false;
  for (const Influence& one : influences) {
    moves |= one.hidden > 0 && one.count == result.count;
    moves |= traits.chooses && one.distance.expected * one.count >= kModel.few_moves;
  }
  return moves ? std::min(std::numbers::sqrt2 * result.largest / result.norm, 1.0) : 0;
}

double visible(const metrics::Distance& distance, const Allowance& allowed) {
  if (distance.equal) return 0;
  const double strength = beyond(distance, allowed);
  if (std::isinf(strength) || allowed.expected == 0) return strength;
  return std::max(strength, distance.value / (kModel.visible * allowed.expected));
}

double independent_errors(double count, double norm, double largest) {
  if (count <= 1 || largest <= 0 || norm <= 0) return std::max(count, 1.0);
  return std::clamp(2 * std::log(count) * std::pow(norm / largest, 2), 1.0, count);
}

double own_rounding(double unit) { return own_roundings(unit) * unit; }

Allowance composite(double high, double likely, double unit) {
  const double own = own_rounding(unit);
  const double magnitude = kModel.composite * (high + own);
  return {magnitude, magnitude, kModel.composite * (likely + own)};
}

double limit_of_rounding(double entered) { return kModel.beyond * kModel.composite * (entered + kModel.own); }

Result result_of(const metrics::TensorFacts& reference, bool is_backward) {
  Result result;
  result.count = std::max(reference.count, 1.0);
  result.typical = reference.typical();
  result.norm = result.typical * std::sqrt(result.count);
  result.largest = reference.largest();
  result.unit = metrics::unit_roundoff(reference.dtype);
  result.is_backward = is_backward;
  return result;
}

Allowance source_allowance(const Result& result) {
  Allowance allowed;
  const double own = own_rounding(result.unit);
  allowed.magnitude = own;
  allowed.bias = result.unit * kModel.bias + own / std::sqrt(result.count);
  if (result.count >= kModel.many_elements) {
    allowed.element = own * ratio(result.largest, result.norm);
  }
  return allowed;
}

double beyond(const metrics::Distance& distance, const Allowance& allowed) {
  if (distance.equal) return 0;
  if (std::isinf(distance.low)) return std::isinf(allowed.magnitude) ? 0 : distance.low;
  if (allowed.magnitude == 0) return kInfinity;  // checksums may differ over equal statistics
  const double magnitude = distance.low > 0 ? distance.low / (kModel.beyond * allowed.magnitude) : 0;
  const double bias = distance.bias > 0 ? distance.bias / (kModel.beyond * allowed.bias) : 0;
  const bool is_local = allowed.element > 0 && distance.peak >= kModel.few_elements;
  const double local = is_local ? distance.low / (kModel.beyond * allowed.element) : 0;
  return std::max({magnitude, bias, local});
}

}  // namespace msprobe::compare

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/operator_error.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

namespace msprobe::verdict {

namespace {

using operators::Gain;

const double kFloat32 = metrics::unit_roundoff(DType::kFloat32);

// What takes one rounding of a term in float32 that far: a gain that is larger says no more.
const double kMostGain = kFarthest / kFloat32;

double at_most(double gain) { return std::clamp(gain, 1.0, kMostGain); }

// The root mean square of one over each element, where the least one is known: of numbers that are spread
// evenly the k-th smallest is k times the least one, and sum 1 / k^2 is pi^2 / 6.
double mean_inverse(const Tensor& tensor) {
  return tensor.least == 0 ? 0 : std::numbers::pi / std::sqrt(6 * tensor.count) / tensor.least;
}

class OfOperator {
 public:
  OfOperator(const Model& model, const Place& place)
      : model_(model), place_(place), result_(place.tensor), cancelled_(cancellation()) {
    unit_ = result_.unit;
    // Under autocast gradients are computed in the dtype of the result, and cast back.
    if (place.is_backward && model.unit_of_autocast_backward) {
      for (const Source& one : place.sources) unit_ = std::max(unit_, one.tensor.unit);
    }
    if (gain_class() == Gain::kScaleFree) find_normalised();
    find_small_divisors();
  }

  Tolerance tolerance() const {
    Tolerance allowed;
    allowed.cancelled = cancelled_;
    bool any_differs = false;
    for (const Source& one : place_.sources) {
      any_differs |= one.distance.high > 0;
      allowed.of_sources.push_back(add(allowed, one));
    }
    if (result_.unit == 0) {
      add_discrete(allowed);
      return allowed;
    }
    if (model_.kink && place_.by.has_kink && place_.is_backward) add_kink(allowed);
    if (gain_class() == Gain::kSteps && !place_.is_backward) add_steps(allowed);
    if (rounds() || place_.extra_rounding > 0) add_own(allowed, any_differs);
    return allowed;
  }

  Common common() const {
    if (!model_.channel) return {};
    if (place_.channel > 0) return {unit_ * lost_units() * shared_units(place_.channel), place_.channel};
    Common most;
    // The gradient of a sum goes to all of its terms.
    if (place_.is_backward && gain_class() == Gain::kSum) {
      for (const Source& one : place_.sources) {
        const double error = error_of(one), terms = result_.count / one.tensor.count;
        if (one.is_saved || terms <= 1) continue;
        if (error > most.error) most = {error, terms};
      }
      return most;
    }
    if (!only_moves() && !is_by_element()) return most;
    for (const Source& one : place_.sources) {
      if (one.tensor.count != result_.count) continue;
      const double error = one.common.error * gain_of(one);
      if (error > most.error) most = {error, one.common.channel};
    }
    return most;
  }

  // How many times the relative error of this source shows in the result.
  double gain_of(const Source& one) const {
    const double smaller = ratio(one.tensor.norm, result_.norm);
    if (&one == divisor_) return std::max(2 * small_divisors_, cancelled_);
    if (&one == divided_)
      return std::max({2.0, at_most(inverse_ * ratio(one.tensor.typical, result_.typical)), cancelled_});
    if (place_.is_backward) {
      if (only_moves()) return std::max(smaller, 1.0);
      if (gain_class() == Gain::kRecurrent) return std::max(model_.opaque, cancelled_);
      if (&one == normalised_) return std::max(2 * at_most(place_.uneven), cancelled_);
      // A normalisation takes two sums out of its gradient, as what they are of is small beside all: what is
      // left is smaller.
      const double taken_out = gain_class() == Gain::kScaleFree ? at_most(1 / place_.uneven) : 1;
      return std::max({2.0, one.is_saved ? 1.0 : std::min(smaller, kMostGain), 2 * taken_out, cancelled_});
    }
    switch (gain_class()) {
      case Gain::kNone: return 0;
      case Gain::kMoves:
      case Gain::kPicks:
      case Gain::kDraws: return std::max(smaller, 1.0);
      case Gain::kSum: {  // of so many results each element is a term
        const double uses = place_.terms * result_.count / one.tensor.count;
        return std::max(smaller * std::sqrt(std::max(uses, 1.0)), 1.0);
      }
      case Gain::kElementwise: return std::max(2.0, gain_of_product());
      case Gain::kPower: return std::max(2.0, gain_of_factors(one));
      case Gain::kScaleFree: return &one == normalised_ ? 2 * at_most(place_.uneven) : 2;
      // An element that is a part e of the tensor, and off by as much, is a part sqrt(e) of the roots.
      case Gain::kRoot: return model_.root ? std::max(2.0, 1 / std::sqrt(one.error())) : 2;
      case Gain::kProduct: return std::max(cancelled_, 1.0);
      case Gain::kExponential:
        return model_.is_masked(one.tensor) ? 2 : std::max(2.0, 2 * one.tensor.typical);
      case Gain::kLogarithm: {
        const bool is_log = place_.by.condition == operators::Condition::kLogarithm && model_.inverse;
        const double slope = is_log ? std::max(mean_inverse(one.tensor), 1.0) : 1;
        return std::max(2.0, at_most(2 * slope * ratio(one.tensor.typical, result_.typical)));
      }
      case Gain::kRecurrent: return model_.opaque;
      case Gain::kAttention: return std::max(2.0, at_most(4 * one.tensor.typical * one.tensor.typical));
      case Gain::kSamples: return gain_of_sample(one);
      case Gain::kSteps:
      case Gain::kDecides:
      case Gain::kUpdate:
      case Gain::kOther: break;
    }
    return at_most(smaller);
  }

 private:
  // Errors that are spread evenly over one factor count by the typical size of the other one. Where large
  // elements meet small ones, as weights of distances do, less than that is left of the factor.
  double gain_of_product() const {
    if (!place_.by.commutes || place_.sources.size() < 2 || !model_.uneven_product) return 1;
    const Tensor &one = place_.sources[0].tensor, &other = place_.sources[1].tensor;
    return at_most(ratio(one.typical * other.typical, result_.typical));
  }

  // Of a product of n elements each is off by a part of it.
  double gain_of_factors(const Source& one) const {
    if (place_.terms == 1) return 1;
    return at_most(ratio(std::pow(one.tensor.typical, place_.terms), result_.typical) *
                   std::sqrt(place_.terms));
  }

  // A place from -1 to 1 is half an extent; two neighbours there are two typical numbers apart at most.
  double gain_of_sample(const Source& one) const {
    const Tensor& sampled = place_.sources.front().tensor;
    if (&one == &place_.sources.front()) return std::max(ratio(one.tensor.norm, result_.norm), 1.0);
    return std::max(at_most(ratio(one.tensor.typical * sampled.last * sampled.typical, result_.typical)),
                    2.0);
  }

  double own_units() const { return by_unit(unit_, model_.own, model_.own_of_coarse); }
  Gain gain_class() const { return place_.by.gain; }
  bool only_moves() const { return place_.by.only_moves(); }

  // Elements in another order have the same distance, and another estimate of it.
  double error_of(const Source& one) const {
    return only_moves() ? std::max(one.distance.high, one.unseen) : one.error();
  }

  Contribution add(Tolerance& allowed, const Source& one) const {
    const double error = error_of(one);
    if (error == 0) return {};
    const double gain = gain_of(one), cast = cast_error(one, error);
    // Independent errors of n elements move a norm or a mean by sqrt(n) times less. Those of one origin are
    // alike along a row; what the call that made it rounded is not.
    const double errors = errors_of(one);
    const double of_channels = of_whole_channels(one, error);
    allowed.magnitude += of_channels;
    allowed.bias += of_channels / std::sqrt(result_.count);
    const double own = std::min(error, model_.own_rounding(one.tensor.unit));
    const bool is_shared = one.is_shared && model_.shared_rows;
    const double shared = is_shared ? one.aligned > 1 ? error * one.aligned : error - own : 0;
    const double random = shared > 0 ? own : error;
    // A sum over rows has one of these of each.
    const bool is_over_rows = gain_class() == Gain::kSum && !place_.is_backward &&
                              result_.count * one.tensor.last <= one.tensor.count;
    const double row = is_over_rows ? 1 : one.tensor.last;
    allowed.magnitude += gain * (shared + random) + cast;
    allowed.bias += gain * (one.distance.most_bias() + shared / std::sqrt(std::min(errors, row)) +
                            random / std::sqrt(errors)) +
                    cast / std::sqrt(errors);
    return {std::isfinite(error) ? gain * (shared + random) / error : gain, error};
  }

  // A sum over m elements that are off by e together, of k such channels, is off by sqrt(k) m e. In backward,
  // as the bias in front of a normalisation gets it.
  double of_whole_channels(const Source& one, double error) const {
    if (one.common.error == 0 || !place_.is_backward || one.is_saved) return 0;
    const double summed = one.tensor.count / result_.count;
    if (summed < one.common.channel || std::fmod(summed, one.common.channel) != 0) return 0;
    return std::min(one.common.error, error) * std::sqrt(summed * one.common.channel) *
           ratio(one.tensor.typical, result_.typical);
  }

  // Of all sources that are numbers of floating point.
  template <typename Size>
  double largest(const Size& size) const {
    double most = 0;
    for (const Source& one : place_.sources) {
      if (one.tensor.unit > 0) most = std::max(most, size(one));
    }
    return most;
  }

  void add_discrete(Tolerance& allowed) const {
    allowed.magnitude += discrete(largest([](const Source& one) { return one.error(); }));
    allowed.bias = allowed.magnitude;
  }

  // R5: where the derivative jumps, an error e takes a share e of the elements over the jump, each off by its
  // size; a whole one, where any are expected to go.
  void add_kink(Tolerance& allowed) const {
    const double error = largest([](const Source& one) { return one.is_saved ? one.error() : 0; });
    const double one_element = result_.count * error >= model_.few_moves ? 1 / result_.count : 0;
    add_moved(allowed, std::sqrt(std::min(std::max(error, one_element), 1.0)));
  }

  // R5: roundings to integers, signs and remainders. Of elements of size t, an error e takes e t over one of
  // the limits between integers; over a single limit, as that of a sign, e. They jump by 2 at most.
  void add_steps(Tolerance& allowed) const {
    const double gone =
        largest([](const Source& one) { return one.error() * std::max(one.tensor.typical, 1.0); });
    if (gone > 0) add_moved(allowed, std::min(ratio(discrete(gone), result_.typical), kMostGain));
  }

  void add_moved(Tolerance& allowed, double moved) const {
    allowed.magnitude += moved;
    allowed.bias += moved / std::sqrt(independent_errors(result_));
  }

  // The gradient of what was repeated, or looked up by an index, is the sum over all its uses. By an index
  // that is in no fixed order, for which torch calls the operator nondeterministic, and may be of a few
  // elements.
  bool rounds() const {
    const bool is_exact = only_moves() || gain_class() == Gain::kNone;
    return !is_exact || (place_.is_backward &&
                         std::any_of(place_.sources.begin(), place_.sources.end(), [&](const Source& one) {
                           const bool is_index = one.is_saved && one.tensor.unit == 0 &&
                                                 place_.by.is_nondeterministic && model_.index_rounds;
                           return is_index || (!one.is_saved && one.tensor.count > result_.count);
                         }));
  }

  void add_own(Tolerance& allowed, bool any_differs) const {
    const double rounding = own_units() + sum_units();
    const double lost = unit_ * std::max(lost_units(), place_.is_backward ? at_most(place_.uneven) : 1);
    allowed.own = rounding * lost;
    if (!any_differs) {  // an element of a long sum by as much more as all of them
      allowed.element = by_unit(unit_, model_.element, model_.element_of_coarse) * rounding / own_units() *
                        lost * ratio(result_.largest, result_.norm);
    }
    allowed.magnitude += allowed.own;
    double shared = gain_class() == Gain::kScaleFree ? shared_units(place_.terms) : 0;
    // A partial sum that is rounded loses what is small beside it: all sums of one direction are too small.
    if (rounds_partial_sums()) shared += sum_units();
    allowed.bias += lost * (by_unit(unit_, model_.bias, model_.bias_of_coarse) + shared +
                            rounding / std::sqrt(independent_errors(result_)));
  }

  // Sums are kept in float32, and rounded once.
  double sum_units() const {
    const double units =
        rounds_partial_sums() ? model_.sum_rounded : model_.sum * std::min(kFloat32 / unit_, 1.0);
    return units * std::sqrt(place_.terms);
  }

  // Gradients of the weights of a normalisation, and of what was looked up, are added up where they stand.
  bool rounds_partial_sums() const {
    const bool adds_in_place = gain_class() == Gain::kScaleFree || only_moves();
    return model_.partial_sums && unit_ > kFloat32 && place_.is_backward && adds_in_place;
  }

  // The rows and channels of a normalisation share the rounding of one sum each.
  double shared_units(double terms) const { return model_.bias_shared * std::sqrt(terms); }

  // How many times a rounding of its own shows in a result that is smaller than its terms. Logarithms of sums
  // of exponentials are kept in float32 until they are rounded to the dtype of the result.
  double lost_units() const {
    const bool keeps_float32 = gain_class() == Gain::kLogarithm && model_.logarithm_in_float32;
    if (!keeps_float32 || place_.is_backward || unit_ <= kFloat32) return cancelled_;
    return std::max(1.0, cancelled_ * kFloat32 / unit_);
  }

  // What it is given, in front of the call or kept for its backward pass.
  void find_normalised() {
    const auto found = std::ranges::find_if(place_.sources, [&](const Source& one) {
      return one.is_saved == place_.is_backward && one.tensor.count == result_.count;
    });
    if (found != place_.sources.end()) normalised_ = &*found;
  }

  // A quotient, as the gradient of a logarithm is one, is off by a part of its divisor, by as much more as
  // that is smaller than a typical one. Sizes tell whether small divisors have most of the quotient, or its
  // largest element: it is larger than numbers of these sizes make it.
  void find_small_divisors() {
    const bool is_quotient = place_.by.condition == operators::Condition::kQuotient;
    const bool is_root = gain_class() == Gain::kRoot && place_.is_backward;  // half of what comes in, over it
    const bool is_log = place_.by.condition == operators::Condition::kLogarithm && place_.is_backward;
    const bool is_inverse = place_.by.condition == operators::Condition::kRoot &&
                            gain_class() == Gain::kElementwise && model_.inverse;
    if (!is_quotient && !is_root && !is_log && !is_inverse) return;
    const Source* given = nullptr;
    std::vector<const Source*> of_forward;
    for (const Source& one : place_.sources) {
      if (one.is_saved || !place_.is_backward) of_forward.push_back(&one);
      if (!one.is_saved && given == nullptr) given = &one;
    }
    if (given == nullptr || of_forward.size() < (is_quotient ? 2 : 1)) return;
    if (is_inverse) {  // of one over x, or of its root: the largest elements have most of it, of the least x
      divisor_ = of_forward.front();
      const double least = divisor_->tensor.least;
      small_divisors_ = at_most(divisor_->tensor.typical * (least > 0 ? 1 / least : result_.largest));
      return;
    }
    divisor_ = is_quotient ? of_forward[1] : is_root ? of_forward.back() : of_forward.front();
    double times = divisor_->tensor.typical * (is_root ? 2 : 1);
    if (is_quotient && place_.is_backward && of_forward.size() > 2)  // of the divisor: times the quotient
      times /= std::max(of_forward[2]->tensor.typical, 1.0);
    const double added = std::max(given->tensor.count / result_.count, 1.0);
    small_divisors_ =
        at_most(times * std::max(ratio(result_.typical, given->tensor.typical * std::sqrt(added)),
                                 ratio(result_.largest, given->tensor.largest * added)));
    // Where what is divided is small with its divisor, the quotient is not large, and as far off.
    if (divisor_->tensor.least == 0 || !model_.least_divisor) return;
    inverse_ = mean_inverse(divisor_->tensor);
    small_divisors_ = std::max(small_divisors_, at_most(divisor_->tensor.typical * inverse_));
    divided_ = given;
  }

  // A cast to a coarser dtype, with neighbours 2u apart: an error e takes a share e / 2u of the elements to
  // the other neighbour, which is off by 2u. Together sqrt(2 u e); where e is beyond u, all are rounded
  // anyhow. Where any are expected to move, it may be the largest one.
  double cast_error(const Source& one, double error) const {
    const bool is_cast = model_.cast && only_moves() && one.tensor.unit > 0 && one.tensor.unit < result_.unit;
    if (!is_cast) return 0;
    const double apart = 2 * result_.unit;
    const double largest = independent_errors(result_) * error / apart >= model_.few_moves
                               ? apart * std::min(ratio(result_.largest, result_.norm), 1.0)
                               : 0;
    return std::max(std::sqrt(apart * std::min(error, result_.unit)), largest);
  }

  // How many errors of a source count in the norm of the result.
  double errors_of(const Source& one) const {
    const double kept = independent_errors(result_);
    double errors = independent_errors(one.tensor);
    // Of a sum there are as many as there are results.
    errors = place_.is_backward ? std::min(errors, kept) : errors * kept / result_.count;
    if (&one == divisor_) errors /= small_divisors_ * small_divisors_;
    return std::max(errors, 1.0);
  }

  // ---- cancellation

  // How much smaller the result is than the terms it is a sum of, as if their signs were random.
  double cancellation() const {
    if (!place_.is_backward && is_by_element()) return 1;
    const double terms = gain_class() == Gain::kProduct ? largest_product() : largest_term();
    return at_most(ratio(terms, result_.typical));
  }

  // Functions of single elements: a product with a small number is small, and no sum that cancels out.
  bool is_by_element() const {
    const Gain gain = gain_class();
    const bool has_no_sum = gain == Gain::kElementwise || gain == Gain::kPower || gain == Gain::kRoot ||
                            gain == Gain::kExponential || gain == Gain::kPicks;
    return has_no_sum && std::none_of(place_.sources.begin(), place_.sources.end(), [&](const Source& one) {
             return !one.is_saved && one.tensor.count > result_.count;
           });
  }

  // A sum over the elements that come in: of n each for one that comes out, sqrt(n) times a typical one. What
  // is masked is no term.
  double largest_term() const {
    double most = 0;
    for (const Source& one : place_.sources) {
      if (one.is_saved || model_.is_masked(one.tensor)) continue;
      most = std::max(most, one.tensor.typical * std::sqrt(std::max(one.tensor.count / result_.count, 1.0)));
    }
    return most;
  }

  // Products of two of them, over the common extent.
  double largest_product() const {
    double most = 0;
    const std::span sources(place_.sources);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      for (std::size_t k = i + 1; k < sources.size(); ++k) {
        const Source &a = sources[i], &b = sources[k];
        if ((a.is_saved && b.is_saved) || model_.is_masked(a.tensor) || model_.is_masked(b.tensor)) continue;
        const double extent = std::sqrt(a.tensor.count * b.tensor.count / result_.count);
        most = std::max(most, a.tensor.typical * b.tensor.typical * std::sqrt(std::max(extent, 1.0)));
      }
    }
    return most;
  }

  const Model& model_;
  const Place& place_;
  const Tensor& result_;
  double cancelled_;
  double unit_ = 0;
  const Source* divisor_ = nullptr;
  const Source* normalised_ = nullptr;
  const Source* divided_ = nullptr;
  double inverse_ = 0;         // the root mean square of one over the divisor, at most
  double small_divisors_ = 1;  // how many times more than its distance the divisor is off where they are
};

}  // namespace

Tolerance of_operator(const Model& model, const Place& place) { return OfOperator(model, place).tolerance(); }

double gain_of(const Model& model, const Place& place, const Source& one) {
  return OfOperator(model, place).gain_of(one);
}

Common common_of_operator(const Model& model, const Place& place) {
  return OfOperator(model, place).common();
}

// Where the result is exactly 0 nothing is known of the gain: rounding leaves something of a sum that
// cancels.
double ratio(double a, double b) {
  // Below, doubles lose digits: a quotient of such sizes says nothing.
  constexpr double kSmallest = std::numeric_limits<double>::min();
  return b > kSmallest ? a / b : (a > kSmallest ? kMostGain : 1);
}

double discrete(double error) { return 2 * std::sqrt(std::min(error, 1.0)); }

}  // namespace msprobe::verdict

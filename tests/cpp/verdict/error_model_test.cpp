// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "catch.h"
#include "verdict/places.h"

using namespace places;

// ---- R1: the very value of its source

TEST_CASE("same value: it may be as far off as its source, and no farther") {
  const Place place = of(Rule::kSameValue, {source(1e-6)});
  CHECK_FALSE(is_suspect(place, off_by(1e-6)));
  CHECK(is_suspect(place, off_by(4e-6)));
  CHECK(is_suspect(of(Rule::kSameValue, {source()}), off_by(1e-9)));
}

TEST_CASE("same value: what was scaled on the way is rounded once more") {
  Place place = of(Rule::kSameValue, {source()});
  CHECK(is_suspect(place, off_by(kFloat32)));
  place.extra_rounding = 1;
  CHECK_FALSE(is_suspect(place, off_by(kFloat32)));
}

TEST_CASE("same value: in a finer dtype, all that its source is off by may be a bias") {
  constexpr double kFloat64 = 0x1p-53;
  CHECK(is_suspect(of(Rule::kSameValue, {source(1e-6)}), off_by(1e-6, 5e-7)));
  const Place cast = of(Rule::kSameValue, {source(1e-6)}, normal(kFloat64));
  CHECK_FALSE(is_suspect(cast, off_by(1e-6, 5e-7)));
  CHECK(is_suspect(cast, off_by(4e-6)));
  CHECK(is_suspect(of(Rule::kSameValue, {source()}, normal(kFloat64)), off_by(1e-9)));
}

// ---- norm and mean

TEST_CASE("bias: a kernel that truncates is rounding, a factor is not") {
  const auto at = [](double unit, double bias) {
    const Place gelu = made_by("gelu", {source(0, normal(unit))}, normal(unit));
    return is_suspect(gelu, off_by(unit, bias * unit));
  };
  // 3 x (1.1 + 3.21 / 37.7), 3 x (0.17 + 1.7 / 37.7): of 4096 elements of a normal distribution as 1,420.
  const double errors = std::sqrt(independent_errors(normal()));
  CHECK_FALSE(at(kFloat32, 3.5));
  CHECK(at(kFloat32, 3.6));
  CHECK_FALSE(at(kBFloat16, 0.64));
  CHECK(at(kBFloat16, 0.66));
  // The rows of a normalisation share the rounding of a sum.
  const auto of_terms = [&](double terms) {
    Place place = made_by("layer_norm", {source()});
    place.terms = terms;
    const double own = 2.9 + 0.31 * std::sqrt(terms);
    return tolerance(place).bias / kFloat32 - 1.1 - own / errors;
  };
  CHECK(of_terms(1e4) == Approx(0.061 * 100));
  // Sums of one direction in 16 bits are all too small, as small terms are lost to them.
  Place weight = backward_of("layer_norm", {source(0, normal(kBFloat16))}, normal(kBFloat16));
  weight.terms = 1e4;
  CHECK(tolerance(weight).bias / kBFloat16 ==
        Approx(0.17 + (0.061 + 0.42) * 100 + (1.7 + 0.42 * 100) / errors));
  // Where one element is half of the norm, as many errors count as make that likely.
  Tensor peaked = normal();
  peaked.largest = 32;
  const double few = std::sqrt(2 * std::log(4096) * 4 / 3);
  CHECK(tolerance(made_by("gelu", {source()}, peaked)).bias == Approx((1.1 + 3.21 / few) * kFloat32));
}

TEST_CASE("bias: errors of single elements average out, those of one origin along the rows alone") {
  const double independent = tolerance(made_by("gelu", {source(1e-3)})).bias;
  const double errors = independent_errors(normal()), forward = errors * errors / 4096;
  CHECK(independent == Approx(2 * 1e-3 / std::sqrt(forward)).epsilon(0.05));
  Source shared = source(1e-3);
  shared.is_shared = true;
  CHECK(tolerance(made_by("gelu", {shared})).bias == Approx(2 * 1e-3 / 8).epsilon(0.05));  // 64 in a row
  // What the call before rounded is of no common origin.
  Source fresh = source(2 * kFloat32);
  const double before = tolerance(made_by("gelu", {fresh})).bias;
  fresh.is_shared = true;
  CHECK(tolerance(made_by("gelu", {fresh})).bias == Approx(before));
}

TEST_CASE("bias: of normal numbers a third counts in the norm, of others the largest") {
  CHECK(independent_errors(normal()) == Approx(4096.0 / 3).epsilon(0.05));  // sqrt(2 ln 4096)
  Tensor peaked = normal();
  peaked.largest = 40;
  CHECK(independent_errors(peaked) < 50);
  CHECK(independent_errors(normal(kFloat32, 1, 1)) == 1);
}

// ---- one element

TEST_CASE("element: one element of many that is off is no rounding") {
  const Place gelu = made_by("gelu", {source()});
  // The largest of 64 x 64 is 1/16 of the norm; 11 are of 2.9, of which a sum of one term has 3.21.
  CHECK(tolerance(gelu).element == Approx(11 * 3.21 / 2.9 / 16 * kFloat32));
  CHECK(tolerance(made_by("gelu", {source(0, normal(kBFloat16))}, normal(kBFloat16))).element ==
        Approx(3.1 / 16 * kBFloat16).epsilon(1e-4));
  Distance one = off_by(4 * kFloat32);
  CHECK_FALSE(is_suspect(gelu, one));
  one.peak = 1;
  CHECK(is_suspect(gelu, one));
  one.peak = 0.985;
  CHECK(is_suspect(gelu, one));
  one.peak = 0.9;  // of several
  CHECK_FALSE(is_suspect(gelu, one));
  // Where something that goes in differs, it may be of few elements, too.
  one.peak = 1;
  CHECK_FALSE(is_suspect(made_by("gelu", {source(1e-9)}), one));
}

// ---- R3: several calls

TEST_CASE("opaque: what goes in may become three times as much, through a whole pass nine times") {
  Place calls = of(Rule::kOpaque, {source(1e-4), source(1e-6)});
  CHECK(tolerance(calls).magnitude == Approx(3e-4).epsilon(0.01));
  CHECK_FALSE(is_suspect(calls, off_by(8e-4)));
  CHECK(is_suspect(calls, off_by(1e-3)));
  calls.calls = 2;
  CHECK(tolerance(calls).magnitude == Approx(9e-4).epsilon(0.01));
  CHECK(tolerance(of(Rule::kOpaque, {})).magnitude == Approx(3 * 2.9 * kFloat32));
}

// ---- R4: the origin

TEST_CASE("origin: data and weights are read, not computed") {
  const Place weight = of(Rule::kOrigin, {});
  CHECK_FALSE(is_suspect(weight, off_by(8.5 * kFloat32)));
  CHECK(is_suspect(weight, off_by(9 * kFloat32)));
  CHECK(is_suspect(weight, off_by(3.6 * kFloat32, 3.6 * kFloat32)));  // all of them larger
  Distance one = off_by(5 * kFloat32);
  one.peak = 1;
  CHECK(is_suspect(weight, one));
}

TEST_CASE("opaque: a sum is off by as much more as it is smaller than its terms") {
  Place bias = of(Rule::kOpaque, {source(1e-6)});
  const double as_large = tolerance(bias).magnitude;
  bias.smaller = 100;
  CHECK(tolerance(bias).magnitude == Approx(100 * as_large));
}

TEST_CASE("origin: data were read, normalised and augmented in float32, and rounded to 16 bits in the end") {
  CHECK_FALSE(is_suspect(given_data(normal()), off_by(20 * kFloat32)));
  CHECK(is_suspect(given_data(normal()), off_by(30 * kFloat32)));
  CHECK_FALSE(is_suspect(given_data(normal(kBFloat16)), off_by(5 * kBFloat16)));
  CHECK(is_suspect(given_data(normal(kBFloat16)), off_by(6 * kBFloat16)));
  CHECK(is_suspect(given_data(normal(0)), off_by(1e-6)));  // integers are read
}

// ---- R5: discrete values

TEST_CASE("discrete: an error takes a share of the elements to the other side of a limit") {
  Tensor flags = normal(0);
  const Place compared = made_by("gt", {source(1e-6)}, flags);
  CHECK(tolerance(compared).magnitude == Approx(2e-3).epsilon(0.01));
  CHECK(is_suspect(made_by("gt", {source()}, flags), off_by(1e-3)));
  const auto kink = [](double error) { return tolerance(backward_of("relu", {source(), saved(error)})); };
  CHECK(kink(1e-3).magnitude == Approx(std::sqrt(1e-3)).epsilon(0.1));
  CHECK(kink(1e-3).bias > std::sqrt(1e-3) / 64);
  // Of 4096 elements one goes there as a whole, where any are expected to.
  CHECK(kink(1e-6).magnitude == Approx(1.0 / 64).epsilon(0.01));
  CHECK(kink(0.0009 / 4096).magnitude < 1e-3);
  CHECK(tolerance(backward_of("tanh", {source(), saved(1e-6)})).magnitude < 2e-5);
}

TEST_CASE("discrete: an element that goes to a neighbour may not show in a sketch") {
  const Tensor gradient = normal(kFloat16);
  const double share = std::sqrt(2.0) * gradient.largest / gradient.norm;
  CHECK(unseen(backward_of("max_pool2d", {source(1e-3, gradient)}, gradient)) == Approx(share));
  CHECK(unseen(backward_of("max_pool2d", {source(0, gradient)}, gradient)) == 0);
  CHECK(unseen(backward_of("avg_pool2d", {source(1e-3, gradient)}, gradient)) == 0);
  // Of 4096 elements, fewer than one in a thousand such gradients has one that moved.
  CHECK(unseen(backward_of("max_pool2d", {source(0.00075 / 4096, gradient)}, gradient)) == 0);
  CHECK(unseen(backward_of("max_pool2d", {source(0.0015 / 4096, gradient)}, gradient)) == Approx(share));
  // A function of single elements leaves it where it is, a sum mixes it with others.
  Source hidden = source(1e-3, gradient);
  hidden.unseen = share;
  CHECK(unseen(backward_of("batch_norm", {hidden}, gradient)) == Approx(share));
  CHECK(unseen(backward_of("conv2d", {hidden}, normal(kFloat16, 1, 64))) == 0);
  // Errors of two elements that are alike cancel in a sum, once in 16 times.
  Source few = source(1e-5, gradient);
  few.distance.peak = 0.99;
  CHECK(unseen(backward_of("relu", {few, saved(0, gradient)}, gradient)) == Approx(2e-5));
  few.distance.peak = 0.5;
  CHECK(unseen(backward_of("relu", {few, saved(0, gradient)}, gradient)) == 0);
  CHECK(tolerance(backward_of("conv2d", {hidden, saved(0, gradient)}, gradient)).magnitude > share);
}

TEST_CASE("discrete: flags in another order are as far off as they were, whatever a sketch shows") {
  Tensor flags = normal();
  flags.unit = 0;
  CHECK(unseen(made_by("permute", {source(0.1, flags)}, flags)) == Approx(0.1));
  CHECK(unseen(made_by("permute", {source(0, flags)}, flags)) == 0);
  CHECK(unseen(made_by("permute", {source(0.1, normal())}, normal())) == 0);  // all of them are off a little
}

TEST_CASE("mask: what stands beside a mask is as far off as what was masked") {
  Tensor masked = normal();
  masked.largest = 3.4e38;
  const Place filled = made_by("masked_fill", {source(1e-4)}, masked);
  CHECK(unseen(filled) >= 1e-4);
  CHECK(unseen(made_by("masked_fill", {source(1e-4)})) == 0);
  Source scores = source(1e-30, masked);
  scores.unseen = unseen(filled);
  CHECK_FALSE(is_suspect(made_by("softmax", {scores}), off_by(3e-4)));
  CHECK(is_suspect(made_by("softmax", {source(1e-30, masked)}), off_by(3e-4)));
  // -1e4 is a mask in float16, where -inf is none that can be multiplied.
  Tensor large = normal(kFloat16);
  large.largest = 0.9e4;
  CHECK_FALSE(kModel.is_masked(large));
  large.largest = 1.1e4;
  CHECK(kModel.is_masked(large));
  // And what a mask hides is no term that cancels out.
  CHECK(tolerance(made_by("matmul", {source(0, masked), source()})).cancelled < 10);
}

// ---- R6: the step of an optimizer

TEST_CASE("update: elements that are 0 but for rounding move by a step in any direction") {
  Place weights = of(Rule::kUpdate, {source(), source(1e-6)});
  weights.step = 0.01;
  CHECK_FALSE(is_suspect(weights, off_by(2 * 0.01)));
  CHECK(is_suspect(weights, off_by(4 * 0.01)));
  CHECK(is_suspect(weights, off_by(0.005, 0.005)));  // all weights larger
  weights.sources[1] = source();                     // of equal gradients
  CHECK(is_suspect(weights, off_by(1e-5)));
  weights.step = msprobe::kInfinity;  // a list of tensors, a step that cannot be seen
  weights.sources[1] = source(1e-6);
  CHECK(std::isinf(tolerance(weights).magnitude));
}

TEST_CASE("update: what was off before the step is off behind it") {
  Place weights = of(Rule::kUpdate, {source(1e-5), source()});
  weights.step = 1e-5;
  CHECK_FALSE(is_suspect(weights, off_by(2e-5)));
  CHECK(is_suspect(weights, off_by(1e-4)));
}

// ---- what cannot be measured

TEST_CASE("unmeasured: another shape is suspect unless its sources cannot be compared either") {
  CHECK(std::isinf(excess(Distance::unmeasurable(), tolerance(made_by("gelu", {source()})))));
  CHECK(excess(Distance::unmeasurable(), tolerance(of(Rule::kUnknown, {}))) == 0);
  CHECK(excess(off_by(0), tolerance(made_by("gelu", {}))) == 0);
  CHECK(std::isfinite(tolerance(made_by("gelu", {}, Tensor{})).magnitude));
}

TEST_CASE("negligible: gradients are measured against a tenth of the typical one") {
  CHECK(kModel.floor_of({1, 100, 2, 3, 0}) == Approx(0.3));  // the median of those that are not 0
  CHECK(kModel.floor_of({0, 0}) == 0);
}

// ---- the model

TEST_CASE("every number is written down with where it comes from") {
  for (const msprobe::compare::VerdictNumber& number : msprobe::compare::verdict_numbers()) {
    CAPTURE(number.name);
    CHECK(number.value > 0);
    CHECK(number.source.size() > 20);
  }
}

TEST_CASE("model: numbers and rules are changed by their names") {
  const Model changed = Model::with({{"own", 29}, {"kink", 0}});
  CHECK(changed.own == 29);
  CHECK_FALSE(changed.kink);
  CHECK(changed.cast);
  const Place place = of(Rule::kOrigin, {});
  CHECK(changed.tolerance(place).own == Approx(10 * kModel.tolerance(place).own));
  CHECK_THROWS_WITH(Model::with({{"nothing", 1}}),
                    R"(there is no number and no rule "nothing" in the verdict)");
}

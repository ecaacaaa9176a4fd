// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <numbers>

#include "catch.h"
#include "verdict/calls.h"
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

// ---- R2: one operator

TEST_CASE("operator: another kernel is rounding, half a percent is not, in every dtype") {
  for (const double unit : {kBFloat16, kFloat16, kFloat32}) {
    CAPTURE(unit);
    const Place gelu = made_by("gelu", {source(unit, normal(unit))}, normal(unit));
    CHECK_FALSE(is_suspect(gelu, off_by(4.6 * unit)));
    CHECK(is_suspect(gelu, off_by(25 * unit)));
  }
  CHECK(is_suspect(made_by("layer_norm", {source()}), off_by(0.005)));
}

TEST_CASE("operator: own rounding is what a kernel makes of equal inputs") {
  // Twice and half of `own` are noticed.
  const Place gelu = made_by("gelu", {source()});
  CHECK_FALSE(is_suspect(gelu, off_by(9.5 * kFloat32)));
  CHECK(is_suspect(gelu, off_by(9.7 * kFloat32)));
  const Place coarse = made_by("gelu", {source(0, normal(kBFloat16))}, normal(kBFloat16));
  CHECK_FALSE(is_suspect(coarse, off_by(5 * kBFloat16)));
  CHECK(is_suspect(coarse, off_by(5.2 * kBFloat16)));
}

TEST_CASE(
    "operator: an absolute error becomes a relative one behind exp, a relative one stays behind a product") {
  const Tensor large = normal(kFloat32, 10);
  CHECK(tolerance(made_by("softmax", {source(1e-3, large)})).magnitude == Approx(20e-3).epsilon(0.01));
  CHECK(tolerance(made_by("mul", {source(1e-3, large)})).magnitude == Approx(2e-3).epsilon(0.01));
  CHECK(tolerance(made_by("sub", {source(1e-3, large)}, normal(kFloat32, 0.1))).magnitude > 0.09);
  CHECK(tolerance(made_by("log", {source(1e-3, normal(kFloat32, 100))})).magnitude ==
        Approx(0.2).epsilon(0.01));
}

TEST_CASE("operator: gains of the other classes") {
  CHECK(tolerance(made_by("pow", {source(1e-3)})).magnitude == Approx(2e-3).epsilon(0.01));
  CHECK(tolerance(made_by("lstm", {source(1e-3)})).magnitude == Approx(3e-3).epsilon(0.01));
  CHECK(tolerance(made_by("layer_norm", {source(1e-3, normal(kFloat32, 100))})).magnitude ==
        Approx(2e-3).epsilon(0.05));
  CHECK(tolerance(made_by("scaled_dot_product_attention", {source(1e-3, normal(kFloat32, 2))})).magnitude ==
        Approx(16e-3).epsilon(0.01));
  // Of what is not known, by as much as the result is smaller, and no more than two tensors can be apart.
  CHECK(tolerance(made_by("unheard_of", {source(1e-3, normal(kFloat32, 10))})).magnitude ==
        Approx(1e-2).epsilon(0.01));
  CHECK(tolerance(made_by("unheard_of", {source(1e-12, normal(kFloat32, 1e20))})).magnitude ==
        Approx(0x1p25 * 1e-12).epsilon(0.2));
  CHECK(tolerance(made_by("zeros_like", {source(1e-3)})).magnitude == 0);
}

TEST_CASE("operator: a sum that cancels out is off by what its terms are off by") {
  // 64 terms of size 1 with random signs make 8.
  const auto product = [](double error, double typical) {
    Place place = made_by("matmul", {source(error), source()}, normal(kFloat32, typical));
    place.terms = 64;
    return tolerance(place);
  };
  CHECK(product(0, 8).cancelled == Approx(1));
  CHECK(product(0, 8e-3).cancelled == Approx(1000));
  CHECK(product(0, 8e-3).magnitude == Approx(1000 * product(0, 8).magnitude));
  CHECK(product(1e-6, 8e-3).magnitude > 999e-6);
  // Of a result of next to no size: there one rounding is as far as two tensors can be apart. Of one that is
  // 0 nothing is known: rounding leaves something of a sum.
  constexpr double kSmallest = std::numeric_limits<double>::min();
  CHECK(product(0, 1e-12).cancelled == 0x1p25);
  CHECK(product(0, 1.5 * kSmallest).cancelled == 0x1p25);
  CHECK(product(0, 0.75 * kSmallest).cancelled == 0x1p25);
  // A product with a small number is no sum.
  CHECK(tolerance(made_by("__mul__", {source()}, normal(kFloat32, 1.0 / 16))).cancelled == 1);
  CHECK(tolerance(made_by("__sub__", {source(), source()}, normal(kFloat32, 1.0 / 16))).cancelled > 10);
}

TEST_CASE("operator: a long sum rounds more, in 16 bits less") {
  const auto of_terms = [](double unit, double terms) {
    Place place = made_by("linear", {source(0, normal(unit)), source(0, normal(unit))}, normal(unit, 8));
    place.terms = terms;
    return tolerance(place).magnitude / unit;
  };
  CHECK(of_terms(kFloat32, 1e4) - of_terms(kFloat32, 1) == Approx(0.31 * 99));            // of sqrt(n)
  CHECK(of_terms(kBFloat16, 1e4) - of_terms(kBFloat16, 1) == Approx(0.31 * 99 / 65536));  // in float32
  // But where the sum itself is in 16 bits.
  const auto of_weight = [](double unit, double terms) {
    Place place = backward_of("layer_norm", {source(0, normal(unit))}, normal(unit));
    place.terms = terms;
    return tolerance(place).magnitude / unit;
  };
  CHECK(of_weight(kBFloat16, 1e4) - of_weight(kBFloat16, 1) == Approx(0.42 * 99));
  CHECK(of_weight(kFloat32, 1e4) - of_weight(kFloat32, 1) == Approx(0.31 * 99));
}

TEST_CASE("operator: the sum over a channel shows what a normalisation made all of it off by") {
  // Of 32 channels of 8464 elements: as the bias of a convolution in front of a batch normalisation gets it.
  Source gradient = source(1e-5, normal(kFloat32, 1, 32 * 8464));
  const Tensor bias = normal(kFloat32, 92, 32);  // 92: sqrt(8464), as if nothing cancelled
  const double alone = tolerance(backward_of("conv2d", {gradient}, bias)).magnitude;
  gradient.common = {1e-6, 8464};
  CHECK(tolerance(backward_of("conv2d", {gradient}, bias)).magnitude - alone == Approx(92e-6));
  // Together they are off by no more than at all.
  gradient.common.error = 1;
  CHECK(tolerance(backward_of("conv2d", {gradient}, bias)).magnitude - alone == Approx(92e-5));
  // Two channels, which are off by something else each.
  gradient.common = {1e-6, 4232};
  CHECK(tolerance(backward_of("conv2d", {gradient}, bias)).magnitude - alone ==
        Approx(92e-6 / std::sqrt(2.0)));
  // A sum over other elements averages it out.
  const Tensor weight = normal(kFloat32, 92, 4608);
  const double of_weight = tolerance(backward_of("conv2d", {gradient}, weight)).magnitude;
  gradient.common = {};
  CHECK(tolerance(backward_of("conv2d", {gradient}, weight)).magnitude == of_weight);
}

TEST_CASE("operator: a small channel is off by more of its size, in a normalisation and in its gradient") {
  const auto gain = [](Place place, double uneven) {
    place.uneven = uneven;
    return tolerance(place).of_sources.back().gain;
  };
  const Place gradient = backward_of("batch_norm", {source(1e-6), saved(1e-6)}, normal());
  CHECK(gain(gradient, 1) == 2);
  CHECK(gain(gradient, 12.5) == Approx(25));
  CHECK(gain(gradient, 0.5) == 2);
  const Place result = made_by("batch_norm", {source(1e-6)});
  CHECK(gain(result, 1) == 2);
  CHECK(gain(result, 12.5) == Approx(25));
  // What the two sums that are taken out leave is smaller than what came in.
  Place small = backward_of("layer_norm", {source(1e-6)});
  small.uneven = 0.1;
  CHECK(tolerance(small).of_sources.front().gain == Approx(20));
  // What comes in is divided by that size itself.
  CHECK(tolerance(backward_of("batch_norm", {source(1e-6), saved(1e-6)}, normal(kFloat32, 12.5))).magnitude <
        7 * 1e-6);
}

TEST_CASE("operator: a batch normalisation makes all of a channel off by the rounding of a sum over it") {
  Place gradient = backward_of("batch_norm", {source()});
  CHECK(common(gradient).error == 0);  // nothing is known of channels
  gradient.channel = 1e4;
  CHECK(common(gradient).error == Approx(0.061 * 100 * kFloat32));
  CHECK(common(gradient).channel == 1e4);
}

TEST_CASE("operator: the gradient of a sum makes all terms of it off together") {
  // A pooling of 12 places, each of which gets the same gradient.
  const Source pooled = source(1e-6, normal(kFloat32, 1, 512));
  const Common terms = common(backward_of("sum", {pooled}, normal(kFloat32, 1, 12 * 512)));
  CHECK(terms.error == 1e-6);
  CHECK(terms.channel == 12);
  CHECK(common(backward_of("add", {pooled}, normal(kFloat32, 1, 512))).error == 0);
}

TEST_CASE("operator: what is made of a channel element by element is off together, too") {
  Source made = source(1e-6);
  made.common = {1e-7, 64};
  CHECK(common(made_by("gelu", {made})).error == Approx(2e-7));  // the gain of a function of single elements
  CHECK(common(made_by("gelu", {made})).channel == 64);
  CHECK(common(made_by("reshape", {made})).error == Approx(1e-7));
  CHECK(common(made_by("linear", {made, source()})).error == 0);  // a sum over others
  // The gradient of what was computed with such a value.
  made.is_saved = true;
  CHECK(common(backward_of("hardswish", {source(), made})).error == Approx(2e-7));
  made.tensor.count = 2048;  // of another tensor
  CHECK(common(backward_of("hardswish", {source(), made})).error == 0);
}

TEST_CASE("operator: what only moves elements rounds nothing") {
  CHECK(tolerance(made_by("reshape", {source()})).magnitude == 0);
  CHECK(is_suspect(made_by("transpose", {source()}), off_by(1e-9)));
  CHECK_FALSE(is_suspect(made_by("transpose", {source(1e-6)}), off_by(2e-6)));
  CHECK(is_suspect(made_by("transpose", {source(1e-6)}), off_by(1e-4)));
  // A part may be farther off than the whole, by as much as it is smaller.
  CHECK(tolerance(made_by("getitem", {source(1e-6)}, normal(kFloat32, 0.01))).magnitude == Approx(1e-4));
}

TEST_CASE("operator: a cast to a coarser dtype takes elements to their other neighbour") {
  const auto coarser = [](double error, double count) {
    return made_by("to", {source(error, normal(kFloat32, 1, count))}, normal(kBFloat16, 1, count));
  };
  const double moved = std::sqrt(2 * kBFloat16 * 1e-6);
  CHECK(tolerance(coarser(1e-6, 1 << 24)).magnitude == Approx(moved).epsilon(0.02));
  // Where any are expected to move, it may be the largest: here by its distance to a neighbour, of 64 in all.
  CHECK(tolerance(coarser(1e-6, 4096)).magnitude == Approx(2 * kBFloat16 * 4 / 64).epsilon(0.02));
  CHECK(is_suspect(coarser(1e-6, 4096), off_by(2e-3)));
  CHECK(tolerance(coarser(1e-9, 4096)).magnitude == Approx(std::sqrt(2 * kBFloat16 * 1e-9)).epsilon(0.02));
  CHECK(is_suspect(made_by("to", {source(1e-6, normal(kBFloat16))}), off_by(2e-4)));  // exact
}

TEST_CASE("operator: the gradient of what was repeated is a sum") {
  const Place repeated = backward_of("expand", {source()}, normal(kFloat32, 8, 64));
  CHECK(tolerance(repeated).magnitude > 0);
  CHECK(is_suspect(repeated, off_by(1e-4)));
  // What is looked up by an index may be looked up twice, of a slice each element is there once.
  const Tensor few = normal(kFloat32, 1, 64);
  CHECK(tolerance(backward_of("index_select", {source(0, few), saved(0, normal(0))})).magnitude > 0);
  CHECK(tolerance(backward_of("index_select", {source(0, few), saved(0)})).magnitude == 0);
  CHECK(tolerance(backward_of("reshape", {source(0, few), saved(0, normal(0))})).magnitude == 0);
}

TEST_CASE("operator: under autocast a gradient is rounded to the coarsest dtype that goes in") {
  const Place gradient = backward_of("linear", {source(0, normal(kBFloat16)), saved(0, normal(kFloat32))});
  CHECK(tolerance(gradient).own > kBFloat16);
}

TEST_CASE("operator: the larger of what goes in and what is computed inside explains a module") {
  Place module = made_by("LlamaMLP", {source(1e-6)});
  const double alone = tolerance(module).magnitude;
  module.inside = source(1e-4);
  CHECK(tolerance(module).magnitude == Approx(3e-4).epsilon(0.01));
  module.inside = source(1e-9);
  CHECK(tolerance(module).magnitude >= alone);
}

TEST_CASE("steps: rounding to integers takes elements to the next one") {
  // Of elements of size 30, an error of 1e-4 takes 3 in 1,000 over a limit; over that of a sign, 1 in 10,000.
  const auto allowed = [](const char* name, double typical, double result) {
    const Place place = made_by(name, {source(1e-4, normal(kFloat32, typical))}, normal(kFloat32, result));
    return tolerance(place).magnitude;
  };
  CHECK(allowed("round", 30, 30) == Approx(2 * std::sqrt(3e-3) / 30).epsilon(0.05));
  CHECK(allowed("sign", 0.01, 1) == Approx(2 * std::sqrt(1e-4)).epsilon(0.05));
  CHECK(tolerance(made_by("round", {source(0)})).magnitude < 1e-6);
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

TEST_CASE("operator: a quotient of what is small with its divisor is off by as much more, and not larger") {
  // A gradient over its own size, as in the first step of Adam: of 4096 divisors the least is 1e-4.
  const auto allowed = [](double least) {
    Tensor divisor = normal();
    divisor.least = least;
    return Model().tolerance(made_by("div", {source(1e-6), source(1e-6, divisor)})).magnitude;
  };
  CHECK(allowed(0) == Approx(4e-6).epsilon(0.1));
  CHECK(allowed(1e-4) == Approx(3 * 1e-6 * std::numbers::pi / std::sqrt(6 * 4096.0) / 1e-4).epsilon(0.1));
}

TEST_CASE("operator: one over x is off by as much more as the least elements have most of it") {
  const auto allowed = [](double least) {
    Tensor x = normal();
    x.least = least;
    return tolerance(made_by("reciprocal", {source(1e-6, x)})).magnitude;
  };
  CHECK(allowed(1e-2) == Approx(2e-6 / 1e-2).epsilon(0.01));
  CHECK(allowed(0) ==
        Approx(2e-6 * 4).epsilon(0.1));  // of both signs: the largest element of the result tells
}

TEST_CASE(
    "operator: a logarithm of small numbers is off by as much more, in front of its backward pass, too") {
  const auto allowed = [](double least) {
    Tensor x = normal();
    x.least = least;
    return tolerance(made_by("log", {source(1e-6, x)})).magnitude;
  };
  CHECK(allowed(1) == Approx(2e-6).epsilon(0.1));
  CHECK(allowed(1e-4) == Approx(2e-6 * std::numbers::pi / std::sqrt(6 * 4096.0) / 1e-4).epsilon(0.1));
}

TEST_CASE("operator: of a product of n factors each is off by a part, and small products by more") {
  const auto gain = [](double terms, double typical) {
    Place place = made_by("prod", {source(1e-6)}, normal(kFloat32, typical));
    place.terms = terms;
    return tolerance(place).of_sources.front().gain;
  };
  CHECK(gain(1, 1) == Approx(2));
  CHECK(gain(16, 1) == Approx(4));
  CHECK(gain(16, 0.1) == Approx(40));
}

TEST_CASE("operator: errors of a factor count by the typical size of the other one") {
  const auto product = [](double typical) {
    return tolerance(made_by("__mul__", {source(), source(1e-6)}, normal(kFloat32, typical))).magnitude;
  };
  CHECK(product(1) == Approx(2e-6).epsilon(0.1));
  CHECK(product(0.1) == Approx(10e-6).epsilon(0.1));  // small elements of one meet large ones of the other
}

TEST_CASE(
    "operator: a difference of neighbours has each element twice, a running sum as often as it is long") {
  const auto gain = [](std::string_view name, double terms) {
    Place place = made_by(name, {source(1e-6)});
    place.terms = terms;
    return tolerance(place).of_sources.front().gain;
  };
  CHECK(gain("diff", 2) == Approx(std::sqrt(2)));
  CHECK(gain("cumsum", 64) == Approx(8));
}

TEST_CASE("operator: the gradient of a logarithm is a quotient") {
  const auto allowed = [](double typical) {
    return Model()
        .tolerance(backward_of("log", {source(), saved(1e-6)}, normal(kFloat32, typical)))
        .magnitude;
  };
  CHECK(allowed(1) == Approx(2e-6).epsilon(0.1));
  CHECK(allowed(50) == Approx(100e-6).epsilon(0.01));
}

TEST_CASE("operator: a quotient is off by as much more as its divisors are small where most of it is") {
  const auto quotient = [](double typical) {
    return tolerance(made_by("__truediv__", {source(), source(1e-6)}, normal(kFloat32, typical))).magnitude;
  };
  CHECK(quotient(1) == Approx(2e-6).epsilon(0.1));
  CHECK(quotient(50) == Approx(100e-6).epsilon(0.01));
  Tensor peaked = normal();  // one divisor is small
  peaked.largest = 400;
  CHECK(tolerance(made_by("__truediv__", {source(), source(1e-6)}, peaked)).magnitude ==
        Approx(200e-6).epsilon(0.01));
  // Of a root half of what comes in is divided by it. What is divided is off by no more.
  CHECK(tolerance(backward_of("sqrt", {source(), saved(0), saved(1e-6)}, normal(kFloat32, 25))).magnitude ==
        Approx(100e-6).epsilon(0.01));
  CHECK(tolerance(made_by("__truediv__", {source(1e-6), source()}, normal(kFloat32, 50))).magnitude < 3e-6);
}

TEST_CASE("operator: a term that is broadcast is off in all elements of the sum") {
  const Source row = source(1e-6, normal(kFloat32, 1, 64));
  CHECK(tolerance(made_by("__sub__", {row, source()}, normal(kFloat32, 0.1))).magnitude ==
        Approx(10e-6).epsilon(0.3));
  CHECK(tolerance(made_by("__sub__", {row, source()})).magnitude == Approx(1e-6).epsilon(0.3));
}

TEST_CASE("operator: errors of all rows may lie along the few columns of a weight") {
  Source moved = source(1e-5);
  moved.is_shared = true;
  const double anywhere = tolerance(made_by("matmul", {moved, source()}, normal(kFloat32, 8))).magnitude;
  moved.aligned = 8;
  CHECK(tolerance(made_by("matmul", {moved, source()}, normal(kFloat32, 8))).magnitude ==
        Approx(8 * anywhere).epsilon(0.1));
}

TEST_CASE("operator: a sum over rows that are off alike is off in one direction") {
  Source moved = source(1e-4);
  moved.is_shared = true;
  const auto bias = [&](double count) {
    return tolerance(made_by("sum", {moved}, normal(kFloat32, 8, count))).bias;
  };
  CHECK(bias(64) == Approx(1e-4).epsilon(0.1));  // one of each row
  CHECK(bias(64) > 5 * bias(4096));
}

TEST_CASE("operator: a place of a sample from -1 to 1 is half an extent") {
  const Source at = source(1e-6, normal(kFloat32, 0.5));
  CHECK(tolerance(made_by("grid_sample", {source(), at})).magnitude == Approx(32e-6).epsilon(0.05));
  CHECK(tolerance(made_by("grid_sample", {source(1e-6), source()})).magnitude == Approx(1e-6).epsilon(0.5));
}

TEST_CASE("operator: a cast that only the reference makes rounds once") {
  Place cast = made_by("to", {source()}, normal(kBFloat16));
  CHECK(is_suspect(cast, off_by(kBFloat16)));
  cast.extra_rounding = 1;
  CHECK_FALSE(is_suspect(cast, off_by(kBFloat16)));
  CHECK(is_suspect(cast, off_by(9 * kBFloat16)));
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

TEST_CASE(
    "root: an element that is a part e of the tensor, and off by as much, is a part sqrt(e) of the roots") {
  CHECK(tolerance(made_by("sqrt", {source(1e-4)})).of_sources.front().gain == Approx(100));
  CHECK(tolerance(made_by("sqrt", {source(1)})).of_sources.front().gain == Approx(2));
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

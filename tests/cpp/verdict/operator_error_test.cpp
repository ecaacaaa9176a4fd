// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <numbers>

#include "catch.h"
#include "verdict/places.h"

using namespace places;

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

TEST_CASE(
    "root: an element that is a part e of the tensor, and off by as much, is a part sqrt(e) of the roots") {
  CHECK(tolerance(made_by("sqrt", {source(1e-4)})).of_sources.front().gain == Approx(100));
  CHECK(tolerance(made_by("sqrt", {source(1)})).of_sources.front().gain == Approx(2));
}

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "compare/rounding_model.h"

#include <cmath>
#include <limits>
#include <vector>

#include "catch.h"

using namespace msprobe;
using namespace msprobe::compare;
using metrics::Distance;

namespace {

constexpr double kBFloat16 = 0x1p-8, kFloat16 = 0x1p-11, kFloat32 = 0x1p-24;

// 4096 elements of size 1.
Influence input(double unit, double high = 0) {
  Influence one;
  one.count = 4096;
  one.typical = 1;
  one.norm = 64;
  one.largest = 4;
  one.last = 64;
  one.unit = unit;
  one.distance = {
      .value = high, .low = high, .high = high, .expected = high, .bias = 0, .norm = 64, .equal = high == 0};
  return one;
}

Result result(double unit, double typical = 1) {
  Result one;
  one.count = 4096;
  one.typical = typical;
  one.norm = 64 * typical;
  one.largest = 4 * typical;
  one.unit = unit;
  return one;
}

Distance off_by(double relative, double bias = 0) {
  return {
      .value = relative, .low = relative, .high = relative, .bias = bias, .norm = 64, .equal = relative == 0};
}

Allowance allowed(std::string_view name, double unit, const std::vector<Influence>& influences,
                  double typical = 1) {
  return allowance(operators::find(name), result(unit, typical), influences, 0);
}

}  // namespace

TEST_CASE("rounding model: another kernel is within it, half a percent is not, in every dtype") {
  for (const double unit : {kBFloat16, kFloat16, kFloat32}) {
    const Allowance gelu = allowed("gelu", unit, {input(unit)});
    CAPTURE(unit);
    CHECK(beyond(off_by(4.6 * unit), gelu) < 1);  // RoundingNoise of tests/faults
    CHECK(beyond(off_by(20 * unit), gelu) > 1);
    // What is systematic shows much earlier: all elements half a unit larger is a kernel that truncates.
    CHECK(beyond(off_by(unit, 0.5 * unit), gelu) < 1);
    CHECK(beyond(off_by(unit, 2 * unit), gelu) > 1);
  }
  CHECK(beyond(off_by(0.005), allowed("layer_norm", kFloat32, {input(kFloat32)})) > 100);
}

TEST_CASE("rounding model: a product of matrices that cancels out is off by what its terms are off by") {
  // 64 terms of size 1 with random signs make 8.
  const std::vector<Influence> exact = {input(kFloat32), input(kFloat32)};
  const Allowance plain = allowed("matmul", kFloat32, exact, 8);
  const Allowance cancelled = allowed("matmul", kFloat32, exact, 8e-3);
  CHECK(plain.cancelled == Approx(1));
  CHECK(cancelled.cancelled == Approx(1000));
  CHECK(cancelled.magnitude == Approx(1000 * plain.magnitude));
  // And what comes in grows by as much.
  const std::vector<Influence> noisy = {input(kFloat32, 1e-6), input(kFloat32)};
  CHECK(allowed("matmul", kFloat32, noisy, 8e-3).magnitude > 999e-6);
  CHECK(allowed("matmul", kFloat32, noisy, 8).magnitude < 3e-6);
}

TEST_CASE("rounding model: what only moves elements rounds nothing") {
  CHECK(allowed("reshape", kBFloat16, {input(kBFloat16)}).magnitude == 0);
  CHECK(std::isinf(beyond(off_by(1e-9), allowed("transpose", kFloat32, {input(kFloat32)}))));
  // A part may be farther off than the whole, by as much as it is smaller.
  CHECK(allowed("getitem", kFloat32, {input(kFloat32, 1e-6)}, 0.01).expected == Approx(1e-4));
  // Sketches may see less of a difference in one order than in the other, but not so much less.
  const Allowance moved = allowed("transpose", kFloat32, {input(kFloat32, 1e-6)});
  CHECK(beyond(off_by(2e-5), moved) < 1);
  CHECK(beyond(off_by(1e-4), moved) > 1);
  CHECK(beyond(off_by(0.8), allowed("transpose", kBFloat16, {input(kBFloat16, 0.1)})) > 1);
}

TEST_CASE("rounding model: a cast to a coarser dtype takes elements to their other neighbour") {
  const Allowance coarser = allowed("to", kBFloat16, {input(kFloat32, 1e-6)});
  CHECK(coarser.magnitude > std::sqrt(2 * kBFloat16 * 1e-6));
  CHECK(beyond(off_by(2e-4, 1e-6), coarser) < 1);
  CHECK(beyond(off_by(2e-3), coarser) > 1);
  CHECK(beyond(off_by(2e-4), allowed("to", kFloat32, {input(kBFloat16, 1e-6)})) > 1);  // exact
  CHECK(std::isinf(beyond(off_by(1e-4), allowed("to", kBFloat16, {input(kFloat32)}))));
}

TEST_CASE("rounding model: the errors of a power are in its largest elements, and show in its norm") {
  // 4096 normal numbers: their cubes have a root mean square of 3.9, the largest is 64.
  Result cubes = result(kFloat32, 3.9);
  cubes.largest = 64;
  const std::vector<Influence> noisy = {input(kFloat32, 1e-6)};
  const Allowance power = allowance(operators::find("pow"), cubes, noisy, 0);
  const Allowance product = allowance(operators::find("mul"), cubes, noisy, 0);
  CHECK(power.magnitude >= 3e-6);
  CHECK(beyond(off_by(3e-6, 1e-6), power) < 1);
  CHECK(beyond(off_by(3e-6, 1e-6), product) > 1);
  CHECK(beyond(off_by(3e-5), power) > 1);
}

TEST_CASE("rounding model: a softmax makes an absolute error a relative one") {
  Influence large = input(kFloat32, 1e-6);
  large.typical = 30;
  large.norm = 30 * 64;
  const double of_large = allowed("softmax", kFloat32, {large}).magnitude;
  const double of_small = allowed("softmax", kFloat32, {input(kFloat32, 1e-6)}).magnitude;
  CHECK(of_large > 59e-6);
  CHECK(of_small < 4e-6);
}

TEST_CASE("rounding model: beside a mask the noise of the step stands in for what cannot be seen") {
  Influence mask = input(kFloat32, 1e-30);
  mask.largest = 3.4e38;
  const Allowance blind = allowance(operators::find("softmax"), result(kFloat32), std::vector{mask}, 1e-4);
  CHECK(blind.magnitude >= 2e-4);
}

TEST_CASE("rounding model: integers and flags change where an element was near a limit") {
  const Allowance exact = allowed("argmax", 0, {input(kFloat32)});
  CHECK(exact.magnitude == 0);
  CHECK(std::isinf(beyond(off_by(0.1), exact)));
  const Allowance noisy = allowed("__lt__", 0, {input(kFloat32, 1e-4)});
  CHECK(noisy.magnitude == Approx(0.0201));  // twice the root of what comes in, and that
}

TEST_CASE("rounding model: behind a kink an error of e takes a share e of the elements over it") {
  Influence saved = input(kFloat32, 1e-6);
  saved.is_saved = true;
  Result backward = result(kFloat32);
  backward.is_backward = true;
  const std::vector<Influence> influences = {input(kFloat32), saved};
  const double with = allowance(operators::find("relu"), backward, influences, 0).magnitude;
  CHECK(with > 1e-3);
  CHECK(with < 2e-3);
}

TEST_CASE("rounding model: one element beyond its own rounding is seen among many") {
  const Allowance gelu = allowed("gelu", kFloat32, {input(kFloat32)});
  Distance single = off_by(12 * kFloat32);
  CHECK(beyond(single, gelu) < 1);
  single.peak = 1;
  CHECK(beyond(single, gelu) > 1);
  // Where something differs before, a single element may well be off.
  CHECK(beyond(single, allowed("gelu", kFloat32, {input(kFloat32, 1e-6)})) < 1);
}

TEST_CASE("rounding model: data and weights are read, not computed") {
  const Allowance source = source_allowance(result(kFloat32));
  CHECK(beyond(off_by(2 * kFloat32), source) < 1);
  CHECK(beyond(off_by(1e-4), source) > 1);
}

TEST_CASE("rounding model: nothing of nothing") {
  const Distance equal;
  CHECK(beyond(equal, Allowance{}) == 0);
  const Distance unmeasured = {
      .value = HUGE_VAL, .low = HUGE_VAL, .high = HUGE_VAL, .bias = 0, .norm = 0, .equal = false};
  CHECK(std::isinf(beyond(unmeasured, allowed("gelu", kFloat32, {input(kFloat32)}))));
  CHECK(beyond(unmeasured, Allowance{HUGE_VAL, HUGE_VAL}) == 0);  // what went in cannot be compared
  const Allowance empty = allowance(operators::find("gelu"), Result{}, {}, 0);
  CHECK(std::isfinite(empty.magnitude));
}

TEST_CASE("rounding model: sums are kept in float32 at least, so their length shows in float32 alone") {
  const auto of_length = [](double unit, double terms) {
    Influence long_one = input(unit);
    long_one.last = terms;
    long_one.count = 64 * terms;
    return allowance(operators::find("linear"), result(unit, std::sqrt(terms)),
                     std::vector{long_one, long_one}, 0)
               .magnitude /
           unit;
  };
  CHECK(of_length(kFloat32, 1e6) > 50 * of_length(kFloat32, 1));
  CHECK(of_length(kBFloat16, 1e6) < 1.1 * of_length(kBFloat16, 1));
}

TEST_CASE("rounding model: what a mask hides is no term that cancels out") {
  Influence mask = input(kBFloat16);
  mask.largest = mask.typical = 3.4e38;
  mask.norm = 64 * mask.typical;
  for (const char* name : {"softmax", "matmul", "where"}) {
    CAPTURE(name);
    const std::vector<Influence> influences = {input(kBFloat16), mask};
    CHECK(allowance(operators::find(name), result(kBFloat16), influences, 0).cancelled < 10);
  }
  // A softmax over another dimension is seen.
  const Allowance softmax =
      allowance(operators::find("softmax"), result(kBFloat16, 0.1), std::vector{mask}, 0);
  CHECK(beyond(off_by(0.3), softmax) > 1);
}

TEST_CASE("rounding model: the gradient of what was repeated is a sum") {
  Result gradient = result(kFloat32);
  gradient.is_backward = true;
  gradient.count = 64;
  gradient.norm = 8;
  const Allowance repeated = allowance(operators::find("expand"), gradient, std::vector{input(kFloat32)}, 0);
  CHECK(repeated.magnitude > kFloat32);
  CHECK(beyond(off_by(2 * kFloat32), repeated) < 1);
  CHECK(beyond(off_by(1e-4), repeated) > 1);
  // Its elements are few, so that their errors show in its norm.
  const Allowance noisy =
      allowance(operators::find("expand"), gradient, std::vector{input(kFloat32, 1e-6)}, 0);
  CHECK(noisy.bias > 1e-6 / 8);
}

TEST_CASE("rounding model: in 16 bits a kernel rounds once, at the end") {
  CHECK(beyond(off_by(7 * kBFloat16), allowed("gelu", kBFloat16, {input(kBFloat16)})) > 1);
  CHECK(beyond(off_by(7 * kFloat32), allowed("gelu", kFloat32, {input(kFloat32)})) < 1);
}

TEST_CASE("rounding model: an estimate of what goes in counts, not its upper bound") {
  Influence one = input(kFloat32);
  one.distance = {.value = 1e-4, .low = 6e-5, .high = 2.4e-4, .expected = 1e-4, .norm = 64, .equal = false};
  const double by_estimate = allowed("gelu", kFloat32, {one}).magnitude;
  one.distance.expected = one.distance.high;  // without sketches
  CHECK(by_estimate == Approx(2e-4).epsilon(0.01));
  CHECK(allowed("gelu", kFloat32, {one}).magnitude == Approx(4.8e-4).epsilon(0.01));
}

TEST_CASE("rounding model: of normal numbers all count in the norm, of others the largest") {
  CHECK(independent_errors(4096, 64, 4.08) == Approx(4096).epsilon(0.02));  // sqrt(2 ln 4096)
  CHECK(independent_errors(4096, 64, 40) < 50);
  CHECK(independent_errors(4096, 64, 64) >= 1);
  CHECK(independent_errors(1, 3, 3) == 1);
  // So an error of every element moves the norm of the second by more.
  Influence one = input(kFloat32, 1e-3);
  const double bias = allowed("gelu", kFloat32, {one}).bias;
  one.largest = 60;
  CHECK(allowed("gelu", kFloat32, {one}).bias > 5 * bias);
}

TEST_CASE("rounding model: errors of one origin do not average out over the rows") {
  Influence one = input(kFloat32, 1e-3);
  const double alone = allowed("linear", kFloat32, {one, input(kFloat32)}, 8).bias;
  one.is_shared = true;
  const double shared = allowed("linear", kFloat32, {one, input(kFloat32)}, 8).bias;
  CHECK(shared == Approx(8 * alone).epsilon(0.05));  // 64 columns, 4096 elements
  // The rounding of the call before is no such error.
  Influence rounded = input(kBFloat16, 2 * kBFloat16);
  const double before = allowed("linear", kBFloat16, {rounded, input(kBFloat16)}, 8).bias;
  rounded.is_shared = true;
  CHECK(allowed("linear", kBFloat16, {rounded, input(kBFloat16)}, 8).bias == Approx(before));
}

TEST_CASE("rounding model: an element that is moved to a neighbour may not show in a sketch") {
  Result gradient = result(kFloat16);
  gradient.is_backward = true;
  const double share = std::sqrt(2.0) * gradient.largest / gradient.norm;
  const operators::Row pool = operators::find("max_pool2d");
  CHECK(moved_element(pool, gradient, std::vector{input(kFloat16, 1e-3)}) == Approx(share));
  CHECK(moved_element(pool, gradient, std::vector{input(kFloat16)}) == 0);        // nothing differs
  CHECK(moved_element(pool, gradient, std::vector{input(kFloat32, 1e-7)}) == 0);  // no move is expected
  // A function of single elements leaves it where it is, a sum mixes it with others.
  Influence hidden = input(kFloat16, 1e-3);
  hidden.hidden = share;
  CHECK(moved_element(operators::find("batch_norm"), gradient, std::vector{hidden}) == Approx(share));
  gradient.count = 64;
  CHECK(moved_element(operators::find("conv2d"), gradient, std::vector{hidden}) == 0);
  CHECK(allowed("conv2d", kFloat16, {hidden, input(kFloat16)}, 8).magnitude > share);
}

TEST_CASE("rounding model: a step that is divided by its size is off by two steps of each element at most") {
  Result weights = result(kFloat32);
  weights.step = 0.02;
  const auto update = [&](double gradient) {
    return allowance(operators::find("addcdiv_"), weights,
                     std::vector{input(kFloat32), input(kFloat32, gradient), input(kFloat32)}, 0);
  };
  CHECK(beyond(off_by(2 * 0.02), update(1e-6)) < 1);
  CHECK(beyond(off_by(4 * 0.02), update(1e-6)) > 1);
  CHECK(beyond(off_by(0.01, 0.01), update(1e-6)) > 1);  // all weights one percent larger
  CHECK(beyond(off_by(1e-5), update(0)) > 1);           // of equal gradients
  weights.step = kInfinity;                             // lists of tensors
  CHECK(std::isinf(update(1e-6).magnitude));
}

TEST_CASE("rounding model: a product with a small number is no sum that cancels out") {
  // Scores of attention, times 1/16: the scale is off by a tenth.
  CHECK(beyond(off_by(0.1), allowed("__mul__", kBFloat16, {input(kBFloat16)}, 1.0 / 16)) > 1);
  CHECK(allowed("__mul__", kBFloat16, {input(kBFloat16)}, 1.0 / 16).cancelled == 1);
  CHECK(allowed("__sub__", kBFloat16, {input(kBFloat16), input(kBFloat16)}, 1.0 / 16).cancelled > 10);
}

TEST_CASE("rounding model: the errors of a root are in its smallest elements") {
  // One element of 1e-8 beside 4096 of 1, off by all of itself: 1e-8 / 64 before, 1e-4 / 64 afterwards.
  CHECK(beyond(off_by(1e-4 / 64), allowed("sqrt", kFloat32, {input(kFloat32, 1e-8 / 64)})) < 1);
  CHECK(beyond(off_by(1e-4 / 64), allowed("tanh", kFloat32, {input(kFloat32, 1e-8 / 64)})) > 1);
}

TEST_CASE("operators: what a backward call computes with") {
  CHECK(operators::find("embedding").keeps == operators::Keeps::kNothing);
  CHECK(operators::find("__add__").keeps == operators::Keeps::kNothing);
  CHECK(operators::find("mse_loss").keeps == operators::Keeps::kAll);
  CHECK(operators::find("Linear").keeps == operators::Keeps::kFactors);
  CHECK(operators::find("LlamaRMSNorm").keeps == operators::Keeps::kFactors);
  CHECK(operators::find("tanh").keeps == operators::Keeps::kAll);
  CHECK(operators::find("max_pool2d").chooses);
  CHECK_FALSE(operators::find("relu").chooses);
}

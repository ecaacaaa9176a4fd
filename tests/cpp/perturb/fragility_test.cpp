// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "catch.h"
#include "msprobe/error.h"
#include "msprobe/perturb.h"

using namespace msprobe::perturb;
using msprobe::DType;

namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

CallMeasure healthy(Arithmetic arithmetic, DType dtype = DType::kFloat32) {
  CallMeasure measure;
  measure.arithmetic = arithmetic;
  measure.dtype = dtype;
  measure.forward = 2;
  measure.backward = 3;
  measure.least_argument = 0.1;
  measure.largest_argument = 10;
  measure.largest_result = 10;
  return measure;
}

std::string kind_of(const CallMeasure& measure) {
  const auto found = judge(measure);
  return found ? std::string(fragility_name(found->kind)) + (found->backward ? " backward" : "") : "";
}

}  // namespace

TEST_CASE("fragility: names of functions in every spelling") {
  CHECK(arithmetic_of("Torch.sub") == Arithmetic::kDifference);
  CHECK(arithmetic_of("Tensor.__rsub__") == Arithmetic::kDifference);
  CHECK(arithmetic_of("Tensor.__isub__") == Arithmetic::kDifference);
  CHECK(arithmetic_of("Tensor.sub_") == Arithmetic::kDifference);
  CHECK(arithmetic_of("Tensor.__truediv__") == Arithmetic::kQuotient);
  CHECK(arithmetic_of("Functional.softmax") == Arithmetic::kSoftmax);
  CHECK(arithmetic_of("Functional.conv2d") == Arithmetic::kProduct);
  CHECK(arithmetic_of("Tensor.masked_fill") == Arithmetic::kNone);
  CHECK(arithmetic_of("Functional.dropout") == Arithmetic::kNone);
  CHECK(arithmetic_of("Tensor.__gt__") == Arithmetic::kNone);
  CHECK(arithmetic_of("Distributed.all_reduce") == Arithmetic::kNone);
  CHECK(arithmetic_of("mine.unheard_of") == Arithmetic::kOther);
}

TEST_CASE("fragility: random units of a coarser dtype") {
  std::vector<float> x = {
      1.0F, -3.0F, 0.0F, 1e-45F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::max()};
  std::vector<float> y(x.size());
  add_random_ulps(DType::kFloat32, x.data(), y.data(), x.size(), 3, 0, 16);  // the last bit of bfloat16
  CHECK(std::abs(y[0] - 1.0F) >= 0x1p-8F);
  CHECK(std::abs(y[0] - 1.0F) <= 0x1p-7F);
  CHECK(std::abs(y[1] + 3.0F) == 0x1p-6F);
  CHECK(y[2] == 0.0F);
  CHECK(y[3] > x[3]);  // never past 0
  CHECK(y[4] == x[4]);
  CHECK(y[5] == x[5]);
}

TEST_CASE("fragility: how far a tensor moved") {
  std::vector<float> x = {3.0F, 4.0F, kNothing, 0.5F};
  std::vector<float> y = {3.0F, 4.0F, 1.0F, 1.0F};
  x[3] = 0;
  y[3] = 1;
  const Change moved = change(DType::kFloat32, x.data(), y.data(), x.size());
  CHECK(moved.relative() == 0.2);
  CHECK((moved.largest == 4 && moved.least == 0 && moved.count == 4 && moved.not_finite == 1));
  Change both = moved;
  both.add(moved);
  CHECK((both.relative() == 0.2 && both.count == 8 && both.not_finite == 2));
  const float zero = 0;
  CHECK(std::isnan(change(DType::kFloat32, &zero, &zero, 1).relative()));
  CHECK(std::isnan(Change().relative()));
  CHECK_THROWS_AS(change(DType::kComplex64, &zero, &zero, 0), msprobe::InvalidArgument);
}

TEST_CASE("fragility: healthy calls") {
  for (const Arithmetic arithmetic :
       {Arithmetic::kOther, Arithmetic::kSum, Arithmetic::kProduct, Arithmetic::kSoftmax,
        Arithmetic::kExponential, Arithmetic::kLogarithm, Arithmetic::kQuotient, Arithmetic::kRoot}) {
    CHECK(kind_of(healthy(arithmetic)).empty());
  }
  CHECK(kind_of(CallMeasure()).empty());
}

TEST_CASE("fragility: a share of the digits of the dtype") {
  for (const auto& [dtype, limit] : {std::pair(DType::kFloat64, 26), std::pair(DType::kFloat32, 12),
                                     std::pair(DType::kFloat16, 8), std::pair(DType::kBFloat16, 6)}) {
    CallMeasure measure = healthy(Arithmetic::kOther, dtype);
    measure.forward = std::exp2(limit) * 0.9;
    CHECK(kind_of(measure).empty());
    measure.forward = std::exp2(limit) * 1.1;
    CHECK(kind_of(measure) == "amplification");
    measure = healthy(Arithmetic::kOther, dtype);
    measure.backward = std::exp2(limit) * 1.1;
    CHECK(kind_of(measure).empty());
    measure.backward = std::exp2(limit + 1) * 1.1;
    CHECK(kind_of(measure) == "amplification backward");
  }
}

TEST_CASE("fragility: an operator that is worse than its condition number") {
  CallMeasure measure = healthy(Arithmetic::kSum);
  measure.forward = 1e5;
  CHECK(kind_of(measure) == "cancellation");
  measure.condition = 2e5;
  CHECK(kind_of(measure) == "cancellation");
  measure.condition = 10;
  CHECK(kind_of(measure) == "unstable");
  CHECK(judge(measure)->reason.find("its condition number allows 10") != std::string::npos);
}

TEST_CASE("fragility: next to zero") {
  CallMeasure measure = healthy(Arithmetic::kLogarithm);
  measure.least_argument = 1e-12;
  CHECK(kind_of(measure) == "near_zero");
  measure.least_argument = 1e-4;
  CHECK(kind_of(measure).empty());
  measure.dtype = DType::kFloat16;
  measure.least_argument = 5e-5;
  CHECK(kind_of(measure) == "near_zero");
  measure = healthy(Arithmetic::kQuotient);
  measure.least_argument = 1e-10;
  CHECK(kind_of(measure).empty());  // next to nothing by next to nothing
  measure.largest_result = 1e9;
  CHECK(kind_of(measure) == "near_zero");
  measure.arithmetic = Arithmetic::kOther;
  CHECK(kind_of(measure).empty());
}

TEST_CASE("fragility: a softmax") {
  CallMeasure measure = healthy(Arithmetic::kSoftmax, DType::kFloat16);
  measure.condition = 30;
  CHECK(kind_of(measure).empty());
  measure.condition = 1e4;
  CHECK(kind_of(measure) == "saturated_softmax");
  measure.condition = 100;
  measure.saturated = 0.2;
  CHECK(kind_of(measure).empty());
  measure.saturated = 0.9;
  CHECK(kind_of(measure) == "saturated_softmax");
  CHECK(judge(measure)->reason.find("in 90 % of its rows") != std::string::npos);
  measure.condition = kNothing;
  CHECK(kind_of(measure) == "saturated_softmax");
}

TEST_CASE("fragility: overflow and the way to it") {
  CHECK(overflow_margin(DType::kFloat16, 16376) == 2);
  CHECK(std::isinf(overflow_margin(DType::kFloat32, 0)));
  CallMeasure measure = healthy(Arithmetic::kProduct, DType::kFloat16);
  measure.largest_result = 3e4;
  CHECK(kind_of(measure) == "near_overflow");
  measure.largest_argument = 3e4;  // it came in
  CHECK(kind_of(measure).empty());
  measure.largest_argument = 10;
  measure.largest_result = 65504;  // what a mask fills in
  CHECK(kind_of(measure).empty());
  measure.results_not_finite = 1;
  CHECK(kind_of(measure) == "overflow");
  measure.arguments_not_finite = 1;  // it came in
  CHECK(kind_of(measure).empty());
  measure = healthy(Arithmetic::kRoot);
  measure.gradients_not_finite = 4;
  CHECK(kind_of(measure) == "overflow backward");
  CHECK(judge(measure)->severity == 2);
}

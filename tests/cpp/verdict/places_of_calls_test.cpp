// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/places_of_calls.h"

#include <string>
#include <utility>
#include <vector>

#include "catch.h"
#include "verdict/steps.h"

using namespace msprobe;
using namespace msprobe::verdict;
using steps::call;
using steps::module_call;
using steps::tensor;

namespace {

// Two steps, and what CallPlaces borrows of them.
struct Steps {
  Steps(const steps::Run& target, const steps::Run& reference) : pair(steps::pair_of(target, reference)) {}

  trace::DumpPair pair;
  std::vector<metrics::Distance> distances = compare::distances(pair, {}, 1);
  std::vector<trace::RealMetrics> metrics;
  Model model;
  Calls calls{model, pair, metrics, distances};
  Unpaired unpaired{calls};
};

}  // namespace

TEST_CASE("product: the sum over the rows of two results leaves none of their errors to average out") {
  // Errors that an earlier step left are alike in all rows: as many count as a row has elements.
  const auto rows_that_count = [](bool has_weight) {
    const auto run = [&](double q, double k) {
      const std::string product =
          call("Functional.linear.0.forward", tensor({q}) + ", " + tensor({k}), tensor({9}));
      const std::string around =
          module_call("Module.a.Linear.forward.0", tensor({q}), tensor({k}), tensor({9}));
      return steps::Run{product + (has_weight ? ", " + around : ""), "",
                        R"("Functional.linear.0.forward": "Module.a.Linear.forward.0", )"
                        R"("Module.a.Linear.forward.0": null)"};
    };
    const Steps both(run(1.1, 5.1), run(1, 5));
    const compare::StepWalk before;
    const CallPlaces places(both.calls, both.unpaired, &before);
    std::vector<Source> sources;
    CHECK(places.sources(0, sources));
    REQUIRE(sources.size() == 2);
    CHECK(sources.front().is_shared);
    CHECK(sources.back().is_shared);  // a weight is one for all rows
    return sources.front().tensor.last;
  };
  CHECK(rows_that_count(true) == 4);   // in front of a weight a row is a sum of its own
  CHECK(rows_that_count(false) == 1);  // scores, as of attention
}

TEST_CASE("product: what an optimizer moved lies along gradients, and so along weights and inputs") {
  const auto run = [](double x, double w) {
    return steps::Run{call("Functional.linear.0.forward", tensor({x}) + ", " + tensor({w}), tensor({9})) +
                          ", " +
                          module_call("Module.a.Linear.forward.0", tensor({x}), tensor({w}), tensor({9})),
                      "",
                      R"("Functional.linear.0.forward": "Module.a.Linear.forward.0", )"
                      R"("Module.a.Linear.forward.0": null)"};
  };
  const Steps both(run(1.1, 5.1), run(1, 5));
  const auto aligned = [&](const compare::StepWalk* before) {
    std::vector<Source> sources;
    CHECK(CallPlaces(both.calls, both.unpaired, before).sources(0, sources));
    REQUIRE(sources.size() == 2);
    return std::pair(sources.front().aligned, sources.back().aligned);
  };
  const compare::StepWalk before;
  CHECK(aligned(nullptr) == std::pair(1.0, 1.0));
  CHECK(aligned(&before) == std::pair(1.0, 2.0));  // 4 x 4: as many columns as numbers in one
}

TEST_CASE("normalisation: sizes of the backward pass tell what small rows are off by") {
  const auto uneven = [](std::string_view name, std::string_view direction, const std::string& made) {
    const std::string call_name = std::string(name) + ".0.";
    const steps::Run run{call(call_name + "forward", tensor({4}), tensor({2})) + ", " +
                         call(call_name + "backward", tensor({3}), made)};
    const Steps both(run, run);
    const CallPlaces places(both.calls, both.unpaired, nullptr);
    const std::uint32_t record = direction == "forward" ? 0 : 1;
    std::vector<Source> sources;
    CHECK(places.sources(record, sources));
    return places.result(both.calls.rows_of(record).back(), sources, true).uneven;
  };
  CHECK(uneven("Tensor.__add__", "forward", tensor({60})) == 1);
  CHECK(uneven("Functional.layer_norm", "forward", tensor({60})) == Approx(4.0 / 2 * 60 / 3));
  // The gradient is in few rows: its largest element is ten times as large beside the others.
  std::string peaked = tensor({60});
  peaked.replace(peaked.find("135"), 3, "1350");
  CHECK(uneven("Functional.layer_norm", "backward", peaked) == Approx(4.0 / 2 * 600 / 3));
  CHECK(uneven("Functional.layer_norm", "forward", peaked) == Approx(4.0 / 2 * 60 / 3));
}

TEST_CASE("backward: what comes in was not seen where something was written into the result") {
  const auto rule = [](const std::string& gradient) {
    const auto run = [&](double x, double made) {
      return steps::Run{call("Functional.linear.0.forward", tensor({x}), tensor({3})) + ", " +
                        call("Functional.linear.0.backward", gradient, tensor({made}))};
    };
    const Steps both(run(1.1, 2.1), run(1, 2));
    const CallPlaces places(both.calls, both.unpaired, nullptr);
    std::vector<Source> sources;
    CHECK(places.sources(1, sources));
    return places.result(both.calls.rows_of(1).back(), sources, true).rule;
  };
  CHECK(rule(tensor({4})) == Rule::kOperator);
  CHECK(rule("null") == Rule::kOpaque);
}

namespace {

// What the last call is given, which only calls of one run made, is off by this when nothing is wrong, and so
// far off is the result of the first call.
std::pair<double, double> allowed(const steps::Run& target, const steps::Run& reference) {
  const Steps both(target, reference);
  const CallPlaces places(both.calls, both.unpaired, nullptr);
  const InputPlace input = places.input(both.calls.rows_of(both.calls.count() - 1).front());
  REQUIRE(input.of_unpaired);
  CHECK(input.place.rule == Rule::kChain);
  return {both.model.tolerance(input.place).magnitude,
          both.calls.distance(both.calls.rows_of(0).back()).expected};
}

const std::string kLast = "Tensor.norm.0.forward";
constexpr double kU = 0x1p-24;

}  // namespace

TEST_CASE("calls of one run: off by what the catalogue expects of them, one after another") {
  // `given` goes into both runs, off by `error`; the reference divides by it, the target does not.
  const auto chain = [](double error, double quotient) {
    const auto first = [](double given) {
      return call("Functional.gelu.0.forward", tensor(), tensor({given})) + ", ";
    };
    const std::string made =
        call("Tensor.div.0.forward", tensor({1.0512}) + ", " + tensor({1.1234}), tensor({quotient})) + ", " +
        call("Tensor.reshape.0.forward", tensor({quotient}), tensor({quotient})) + ", " +
        call("Functional.silu.0.forward", tensor({quotient}), tensor({2 * quotient})) + ", ";
    const std::string last = call(kLast, tensor({2 * quotient}), tensor({9}));
    return allowed({first(1.1234 + error) + call("Tensor.mul.0.forward", tensor(), tensor({2 * quotient})) +
                    ", " + last},
                   {first(1.1234) + made + last});
  };
  const auto [rounding, equal] = chain(0, 0.9357);  // of two calls that compute
  CHECK(rounding == Approx(2 * equal + 2 * Model().own_rounding(kU)).epsilon(0.15));
  const auto [magnitude, error] = chain(0.01, 0.9357);  // what one call makes of an error, and not twice that
  CHECK(magnitude == Approx(2 * error).epsilon(0.1));
  CHECK(chain(1e-6, 1234.5).first > 100 * chain(1e-6, 0.9357).first);  // small divisors
  CHECK(chain(0.01, 1e12).first == 2 * 2);  // no two tensors are farther apart than 2
}

TEST_CASE("calls of one run: the target may round as the reference does, and no more coarsely") {
  const auto chain = [](std::string_view reference, std::string_view target) {
    const auto run = [&](std::string_view name, std::string_view dtype) {
      const std::string first =
          call("Functional.gelu.0.forward", tensor(), tensor({1.1234, reference})) + ", ";
      return steps::Run{first + call(name, tensor({5.4321, dtype}), tensor({3.1234, dtype})) + ", " +
                        call(kLast, tensor({3.1234, dtype}), tensor({9}))};
    };
    return allowed(run("Functional.softplus.0.forward", target), run("Torch.exp.0.forward", reference)).first;
  };
  const double coarse = chain("bfloat16", "bfloat16");
  CHECK(coarse > 0.9 * Model().own_rounding(0x1p-8));
  CHECK(chain("bfloat16", "float32") > 0.9 * Model().own_rounding(0x1p-8));
  CHECK(chain("float32", "bfloat16") < 4 * Model().own_rounding(kU));
}

TEST_CASE("calls of one run: a gradient that no call made is a sum of those before") {
  // What comes into the second backward call is not what the first gives: two calls gave something back.
  const auto chain = [](double small) {
    const auto back = [](int i, const std::string& in, const std::string& out) {
      return call("Functional.linear." + std::to_string(i) + ".backward", in, out) + ", ";
    };
    const std::string same = call("Functional.gelu.0.backward", tensor(), tensor({1.1234}));
    const std::string last = call(kLast, tensor({5.4321}), tensor({9}));
    return allowed({same + ", " + last}, {same + ", " + back(0, tensor({1.1234}), tensor({small})) +
                                          back(1, tensor({4.1234}), tensor({5.4321})) + last})
        .first;
  };
  CHECK(chain(1e-4) > 100 * chain(2.1234));  // terms cancelled out in the first
}

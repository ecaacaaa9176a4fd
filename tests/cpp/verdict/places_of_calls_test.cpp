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

TEST_CASE("calls of one run: a backward pass goes through several calls two times, forward and back") {
  const auto times = [](const std::string& direction) {
    const auto alone = [&](int i) {
      const std::string in = tensor({1.1234 + i}), out = tensor({2.1234 + i});
      return call("Functional.linear." + std::to_string(i) + direction, in, out) + ", ";
    };
    const std::string same = call("Functional.gelu.0" + direction, tensor(), tensor({1.1234}));
    const std::string last = call("Tensor.norm.0.forward", tensor({3.1234}), tensor({9}));
    const Steps both({same + ", " + last}, {same + ", " + alone(0) + alone(1) + last});
    const CallPlaces places(both.calls, both.unpaired, nullptr);
    const InputPlace input = places.input(both.calls.rows_of(1).front());
    CHECK(input.of_unpaired);
    CHECK(input.place.rule == Rule::kOpaque);
    return input.place.calls;
  };
  CHECK(times(".forward") == 1);
  CHECK(times(".backward") == 2);
}

TEST_CASE("calls of one run: the dtype that both runs compute in there tells what rounding may make") {
  // A call before in bfloat16; one of the reference, and what the target calls in its place, of this dtype.
  const auto unit = [](std::string_view dtype, bool is_known) {
    const std::string first =
        call("Functional.linear.0.forward", tensor(), tensor({1.1234, "bfloat16"})) + ", ";
    const auto run = [&](const char* name, std::string_view of, double out, double taken) {
      return steps::Run{first + call(name, tensor({5.4321, of}), tensor({out})) + ", " +
                        call("Tensor.norm.0.forward", tensor({taken}), tensor({9}))};
    };
    const double other = is_known ? 3.1235 : 7.1234;  // as a gradient that two calls give back is
    const Steps both(run("Torch.exp.0.forward", dtype, 3.1235, other),
                     run("Functional.softplus.0.forward", "float32", 3.1234, 3.1234));
    const CallPlaces places(both.calls, both.unpaired, nullptr);
    const InputPlace input = places.input(both.calls.rows_of(2).front());
    REQUIRE(input.of_unpaired);
    return input.place.tensor.unit;
  };
  CHECK(unit("float32", true) == 0x1p-24);
  CHECK(unit("bfloat16", true) == 0x1p-8);
  CHECK(unit("float32", false) == 0x1p-8);
}

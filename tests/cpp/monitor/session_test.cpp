// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <string>
#include <vector>

#include "catch.h"
#include "msprobe/error.h"
#include "msprobe/monitor_session.h"

namespace {

using namespace msprobe::monitor;

Row norm_of(std::uint32_t label, double value) { return row_of_value(label, value, 1e-8); }

TEST_CASE("monitor session: the table has the order of Measured") {
  CHECK(quantity(Measured::kLoss).name == "loss");
  CHECK(quantity(Measured::kGradient).name == "gradient");
  CHECK(quantity(Measured::kActivationGradient).name == "activation_gradient");
  CHECK(quantity(Measured::kCommunication).name == "communication");
  CHECK(quantity(Measured::kMatrix).name == "matrix");
  CHECK(quantities().size() == static_cast<std::size_t>(Measured::kMatrix) + 1);
}

TEST_CASE("monitor session: rows become the series of a parameter, its layer and the model") {
  Session session({{"norm"}, {"parameter", "layer", "model"}, {}, 1});
  Frame frame;
  frame.add(norm_of(session.label(Measured::kWeight, "layers.0.a"), 3));
  frame.add(norm_of(session.label(Measured::kWeight, "layers.0.b"), 4));
  session.evaluate(frame);
  const std::vector<std::string> keys{"weight.norm/layers.0.a", "weight.norm/layers.0.b",
                                      "weight.norm/layers.0", "weight.norm"};
  CHECK(session.keys() == keys);
  CHECK(session.numbers() == std::vector<double>{3, 4, 5, 5});
  session.clear();
  CHECK(is_absent(session.numbers()[0]));
}

TEST_CASE(
    "monitor session: without a file the rules watch all the same, and have seen what another learned") {
  const Rule rule{Rule::Kind::kLimit, "mine", {"loss"}, 10};
  Session session({{}, {"model"}, {rule}, 1});
  session.learn({{Series{"loss", "", "", "model", -1, ""}}, {{0, 1}, {{1.0, 2.0}}}});
  session.set(Measured::kLoss, "", "", 11);
  session.append(2);
  const std::vector<Alarm> alarms = session.check(2);
  REQUIRE(alarms.size() == 1);
  CHECK(session.keys()[alarms[0].series] == "loss");
  CHECK(session.rules()[alarms[0].rule].name == "mine");
}

TEST_CASE("monitor session: rows with a label that another has made become series, too") {
  Session session({{"norm"}, {"parameter"}, {}, 1});
  const std::uint32_t label =
      session.labels()->add({0, "fc.weight", static_cast<std::uint32_t>(Measured::kWeight)});
  const auto frame = session.frame(Measured::kWeight);
  CHECK(frame == session.frame(Measured::kGradient));
  frame->add(norm_of(label, 3));
  session.calls()->next();
  session.evaluate(*session.take_rows());
  CHECK(session.numbers() == std::vector<double>{3});
  CHECK(session.keys() == std::vector<std::string>{"weight.norm/fc.weight"});
  CHECK(frame->size() == 0);
  CHECK(session.calls()->next() == 0);
  session.labels()->add({0, "x", 1000});
  CHECK_THROWS_AS(session.evaluate(*frame), msprobe::InvalidArgument);
}

TEST_CASE("monitor session: quantities that are apart have the last row of a label each") {
  Session session({{}, {}, {}, 1, /*apart=*/true});
  const std::uint32_t label = session.labels()->add({1, "fc.weight"});
  const auto weights = session.frame(Measured::kWeight);
  const auto gradients = session.frame(Measured::kGradient);
  weights->add(norm_of(label, 3));
  weights->add(norm_of(label, 4));
  CHECK(weights->size() == 1);
  CHECK(weights->rows()[0].sums.sum == 4);
  CHECK(gradients->size() == 0);
  session.drop_rows();
  CHECK(weights->size() == 0);
}

TEST_CASE("monitor session: what is no row has no series of rows") {
  Session session({});
  CHECK_THROWS_AS(session.label(Measured::kLoss, "x"), msprobe::InternalError);
  CHECK_THROWS_AS(Session({{"no such metric"}, {}, {}, 1}), msprobe::InvalidArgument);
  CHECK_THROWS_AS(Session({{}, {"no such level"}, {}, 1}), msprobe::InvalidArgument);
}

}  // namespace

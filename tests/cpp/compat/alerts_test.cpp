// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <vector>

#include "base/non_finite.h"
#include "catch.h"
#include "msprobe/error.h"
#include "msprobe/monitor.h"
#include "msprobe/trainer_mon.h"

using namespace msprobe;
using monitor::Alert;
using monitor::AlertRule;
using monitor::Alerts;
using monitor::Frame;

namespace {

std::vector<Alert> check(Alerts& alerts, double value) {
  Frame frame;
  frame.add(monitor::row_of_value(0, value, 1e-8));
  return alerts.check(frame);
}

}  // namespace

TEST_CASE("alerts: turbulence is above the mean so far") {
  Alerts alerts({{AlertRule::Kind::kTurbulence, 0.5}}, {"mean"});
  CHECK(check(alerts, 1).empty());  // the first value is the mean
  CHECK(check(alerts, 1.4).empty());
  CHECK(check(alerts, -0.1).empty());  // only upward
  const std::vector<Alert> found = check(alerts, -2);
  REQUIRE(found.size() == 1);
  CHECK(found[0].value == -2);
  CHECK(found[0].mean == Approx((1 * 0.99 + 0.014) * 0.99 + 0.001));
}

TEST_CASE("alerts: a NaN does not stay in the mean") {
  Alerts alerts({{AlertRule::Kind::kNan, std::nullopt}, {AlertRule::Kind::kTurbulence, 0.5}}, {"norm"});
  CHECK(check(alerts, 1).empty());
  CHECK(check(alerts, kNaN).size() == 1);
  CHECK(check(alerts, std::numeric_limits<double>::infinity()).size() == 1);  // turbulence
  CHECK(check(alerts, 1).empty());
  CHECK(check(alerts, 2).size() == 1);
}

TEST_CASE("alerts: a NaN at the beginning does not switch turbulence off") {
  Alerts alerts({{AlertRule::Kind::kTurbulence, 0.5}}, {"norm"});
  CHECK(check(alerts, kNaN).empty());
  CHECK(check(alerts, 1).empty());
  CHECK(check(alerts, 2).size() == 1);
}

TEST_CASE("alerts: an infinity is reported only above a threshold") {
  const double infinity = std::numeric_limits<double>::infinity();
  Alerts without({{AlertRule::Kind::kNan, std::nullopt}}, {"max"});
  Alerts with({{AlertRule::Kind::kNan, 1e10}}, {"max"});
  CHECK(check(without, infinity).empty());
  CHECK(check(with, infinity).size() == 1);
  CHECK(check(with, -1e11).size() == 1);
}

TEST_CASE("alerts: turbulence of other statistics is not reported and hides later rules") {
  Alerts alerts({{AlertRule::Kind::kTurbulence, 0.5}, {AlertRule::Kind::kNan, 5.0}}, {"max", "norm"});
  CHECK(check(alerts, 1).empty());
  const std::vector<Alert> found = check(alerts, 10);
  REQUIRE(found.size() == 1);
  CHECK(found[0].op == 1);
  CHECK(found[0].rule == 0);
}

TEST_CASE("alerts: what is missing is not reported") {
  Alerts alerts({{AlertRule::Kind::kNan, std::nullopt}}, {"norm"});
  Frame frame;
  monitor::Row row;
  row.missing = true;
  frame.add(row);
  CHECK(alerts.check(frame).empty());
}

TEST_CASE("alerts: statistics that are no numbers are refused") {
  CHECK_THROWS_AS(Alerts({}, {"shape"}), InvalidArgument);
  CHECK_THROWS_AS(Alerts({}, {"nom"}), InvalidArgument);
}

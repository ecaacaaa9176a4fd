// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/non_finite.h"
#include "catch.h"
#include "msprobe/error.h"
#include "msprobe/monitor.h"

using namespace msprobe;
using monitor::absent;
using monitor::Alarm;
using monitor::Rule;
using monitor::Rules;

namespace {

Rule rule_of(Rule::Kind kind, double threshold = 0, double ratio = 2) {
  Rule rule;
  rule.kind = kind;
  rule.name = "r";
  rule.series = {"*"};
  rule.threshold = threshold;
  rule.ratio = ratio;
  return rule;
}

// Steps at which one series raises an alarm.
std::vector<std::int64_t> alarms(const Rule& rule, std::int64_t steps,
                                 const std::function<double(std::int64_t)>& value) {
  Rules rules({rule});
  rules.add_series("loss");
  std::vector<std::int64_t> found;
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::vector<double> values{value(step)};
    for (const Alarm& alarm : rules.check(step, values)) found.push_back(alarm.step);
  }
  return found;
}

// Noise that is the same in every run.
double noise(std::int64_t step) {
  std::uint64_t x = static_cast<std::uint64_t>(step) * 0x9E3779B97F4A7C15U + 12345;
  double sum = 0;
  for (int i = 0; i < 12; ++i) {
    x ^= x >> 31;
    x *= 0xBF58476D1CE4E5B9U;
    x ^= x >> 29;
    sum += static_cast<double>(x >> 11) * 0x1p-53;
  }
  return sum - 6;  // near a normal distribution
}

using Steps = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("rules: a NaN is reported once, until a number was finite again") {
  Rule rule = rule_of(Rule::Kind::kNonFinite);
  rule.cooldown = 0;
  const auto value = [](std::int64_t step) {
    if (step == 3 || step == 4) return kNaN;
    return step == 8 ? -std::numeric_limits<double>::infinity() : 1.0;
  };
  CHECK(alarms(rule, 10, value) == Steps{3, 8});
}

TEST_CASE("rules: limits hold behind the warm-up, on both sides") {
  Rule rule = rule_of(Rule::Kind::kLimit, 10);
  rule.warm_up = 3;
  rule.cooldown = 2;
  CHECK(alarms(rule, 8, [](std::int64_t step) { return step == 6 ? 9.0 : -11.0; }) == Steps{3, 5, 7});
  rule.falling = true;
  CHECK(alarms(rule, 8, [](std::int64_t step) { return step == 6 ? 9.0 : 11.0; }) == Steps{6});
}

TEST_CASE("rules: a limit of 0 is broken by anything else") {
  CHECK(alarms(rule_of(Rule::Kind::kLimit, 0), 5, [](std::int64_t step) { return step == 2 ? 1.0 : 0.0; }) ==
        Steps{2});
}

TEST_CASE("rules: spikes stand out of noise, and noise does not") {
  Rule rule = rule_of(Rule::Kind::kSpike, 6, 3);
  rule.warm_up = 20;
  const auto calm = [](std::int64_t step) { return std::exp(0.3 * noise(step)); };
  CHECK(alarms(rule, 5000, calm).empty());
  CHECK(alarms(rule, 200, [&](std::int64_t step) { return calm(step) * (step == 150 ? 30 : 1); }) ==
        Steps{150});
  rule.falling = true;
  CHECK(alarms(rule, 200, [&](std::int64_t step) { return calm(step) / (step == 150 ? 30 : 1); }) ==
        Steps{150});
}

TEST_CASE("rules: a spike of a series that hardly moves has to be large as well") {
  Rule rule = rule_of(Rule::Kind::kSpike, 6, 3);
  rule.warm_up = 20;
  CHECK(alarms(rule, 100, [](std::int64_t step) { return step == 50 ? 1.5 : 1.0; }).empty());
  CHECK(alarms(rule, 100, [](std::int64_t step) { return step == 50 ? 3.5 : 1.0; }) == Steps{50});
}

TEST_CASE("rules: a drift is found long before it is a spike, and a healthy trend is none") {
  Rule drift = rule_of(Rule::Kind::kDrift, 30, 2);
  drift.warm_up = 50;
  Rule spike = rule_of(Rule::Kind::kSpike, 8, 4);
  spike.warm_up = 50;
  const auto healthy = [](std::int64_t step) {
    return 5 / std::sqrt(1.0 + static_cast<double>(step)) * std::exp(0.1 * noise(step));
  };
  CHECK(alarms(drift, 20000, healthy).empty());
  const auto growing = [](std::int64_t step) {
    const double grown = step > 1000 ? std::exp(0.01 * static_cast<double>(step - 1000)) : 1;
    return 5 * grown * std::exp(0.1 * noise(step));
  };
  const Steps found = alarms(drift, 1600, growing);
  REQUIRE_FALSE(found.empty());
  CHECK(found.front() > 1000);
  CHECK(found.front() < 1130);  // grown by less than 4
  CHECK(alarms(spike, 1600, growing).empty());
}

TEST_CASE("rules: a single spike is no drift") {
  Rule rule = rule_of(Rule::Kind::kDrift, 30, 2);
  rule.warm_up = 50;
  CHECK(alarms(rule, 2000, [](std::int64_t step) {
          return std::exp(0.1 * noise(step)) * (step % 300 == 299 ? 1e6 : 1);
        }).empty());
}

TEST_CASE("rules: turbulence is that of the existing tool") {
  CHECK(alarms(rule_of(Rule::Kind::kTurbulence, 0.5), 5,
               [](std::int64_t step) { return step == 3 ? -2.0 : 1.0; }) == Steps{3});
}

TEST_CASE("rules: zeros, NaN and what is absent do not confuse what is known") {
  Rule rule = rule_of(Rule::Kind::kSpike, 6, 3);
  rule.warm_up = 20;
  const auto value = [](std::int64_t step) {
    if (step % 5 == 1) return 0.0;
    if (step % 5 == 2) return kNaN;
    if (step % 5 == 3) return absent();
    return step == 150 ? 100.0 : 1.0;
  };
  CHECK(alarms(rule, 200, value) == Steps{150});
}

TEST_CASE("rules: only series that match are watched, and the most urgent alarm comes first") {
  Rule limit = rule_of(Rule::Kind::kLimit, 1);
  limit.series = {"gradient.norm/*", "loss"};
  Rules rules({limit});
  for (const char* key : {"gradient.norm/a", "weight.norm/a", "loss"}) rules.add_series(key);
  const std::vector<double> values{2, 100, 5, 7};
  const std::vector<Alarm> found = rules.check(0, values);
  REQUIRE(found.size() == 2);
  CHECK(found[0].series == 2);
  CHECK(found[0].score == 5);
  CHECK(found[1].series == 0);
  CHECK(rules.check(50, values).empty());  // cooldown
  CHECK(rules.check(100, values).size() == 2);
}

TEST_CASE("rules: what makes no sense is refused") {
  CHECK_THROWS_AS(Rules({rule_of(Rule::Kind::kLimit, -1)}), InvalidArgument);
  CHECK_THROWS_AS(Rules({rule_of(Rule::Kind::kLimit, kNaN)}), InvalidArgument);
  CHECK_THROWS_AS(Rules({rule_of(Rule::Kind::kSpike, 1, 1)}), InvalidArgument);
  Rule rule = rule_of(Rule::Kind::kSpike, 1, 2);
  rule.window = 0;
  CHECK_THROWS_AS(Rules({rule}), InvalidArgument);
  rule.window = 1;
  rule.cooldown = -1;
  CHECK_THROWS_AS(Rules({rule}), InvalidArgument);
}

TEST_CASE("rules: the default ones are accepted") {
  CHECK(Rules(monitor::default_rules()).rules().size() > 3);
}

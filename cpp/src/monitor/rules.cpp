// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/non_finite.h"
#include "msprobe/error.h"
#include "msprobe/monitor.h"

namespace msprobe::monitor {
namespace {

// Standard deviations of logarithms below this are taken for it: a series that hardly moves is not made
// suspicious by a few percent.
constexpr double kLeastDeviation = 0.03;
// One number moves means and sums by no more than so many standard deviations.
constexpr double kMostDeviations = 3;

bool matches(const Rule& rule, const std::string& key) {
  return std::any_of(rule.series.begin(), rule.series.end(), [&](const std::string& pattern) {
    return ::fnmatch(pattern.c_str(), key.c_str(), 0) == 0;
  });
}

}  // namespace

// What one rule remembers of one series.
struct Rules::State {
  // Straight line through points, and how far they lie from it: exact, each point as heavy as the others.
  class Line {
   public:
    void add(double x, double y) {
      ++n_;
      const double dx = x - mean_x_;
      mean_x_ += dx / n_;
      mean_y_ += (y - mean_y_) / n_;
      xx_ += dx * (x - mean_x_);
      xy_ += dx * (y - mean_y_);
    }

    double at(double x) const { return mean_y_ + (xx_ > 0 ? xy_ / xx_ : 0) * (x - mean_x_); }

   private:
    double n_ = 0;
    double mean_x_ = 0;
    double mean_y_ = 0;
    double xx_ = 0;
    double xy_ = 0;
  };

  // Exponential mean and variance.
  class Recent {
   public:
    double mean() const { return mean_; }
    double deviation() const { return std::max(std::sqrt(variance_), kLeastDeviation); }

    void add(double x, double weight) {
      const double change = x - mean_;
      mean_ += weight * change;
      variance_ = (1 - weight) * (variance_ + weight * change * change);
    }

   private:
    double mean_ = 0;
    double variance_ = 0;
  };

  std::size_t rule = 0;
  std::int64_t seen = 0;  // numbers
  std::int64_t quiet_until = std::numeric_limits<std::int64_t>::min();
  bool was_finite = true;
  Recent recent;
  Line trend;
  double sum = 0;  // of CUSUM
  double mean = 0;

  // How far `value` is beyond the limit: above 1 it is. NaN: nothing can be said. Sets what would be normal.
  double judge(const Rule& rule, double value, double& expected);

 private:
  double spike(const Rule& rule, double value, double& expected);
  double drift(const Rule& rule, double value, double& expected);
  double turbulence(const Rule& rule, double value, double& expected);
  double weight(const Rule& rule) const {
    return std::max(1.0 / static_cast<double>(seen), 2.0 / static_cast<double>(rule.window + 1));
  }
};

double Rules::State::judge(const Rule& rule, double value, double& expected) {
  const bool finite = std::isfinite(value);
  if (rule.kind == Rule::Kind::kNonFinite) {
    const double score = !finite && was_finite ? kInfinity : 0;
    was_finite = finite;
    return score;
  }
  if (!finite) return kNaN;
  ++seen;
  switch (rule.kind) {
    case Rule::Kind::kLimit: {
      expected = rule.threshold;
      if (seen <= rule.warm_up) return kNaN;
      const double magnitude = std::abs(value);
      return rule.falling ? rule.threshold / magnitude : magnitude / rule.threshold;
    }
    case Rule::Kind::kSpike: return value == 0 ? kNaN : spike(rule, value, expected);
    case Rule::Kind::kDrift: return value == 0 ? kNaN : drift(rule, value, expected);
    default: return turbulence(rule, value, expected);
  }
}

double Rules::State::spike(const Rule& rule, double value, double& expected) {
  const double x = std::log(std::abs(value));
  const double deviation = recent.deviation();
  double score = kNaN;
  if (seen > std::max<std::int64_t>(rule.warm_up, 1)) {
    expected = std::exp(recent.mean());
    const double above = (x - recent.mean()) * (rule.falling ? -1 : 1);
    score = std::min(above / (rule.threshold * deviation), above / std::log(rule.ratio));
  }
  const double most = kMostDeviations * deviation;
  const bool is_young = seen <= rule.warm_up || seen == 1;
  const double clipped = is_young ? x : std::clamp(x, recent.mean() - most, recent.mean() + most);
  recent.add(clipped, weight(rule));
  return score;
}

double Rules::State::drift(const Rule& rule, double value, double& expected) {
  const double x = std::log(std::abs(value));
  const double when = std::log(static_cast<double>(seen));
  double score = kNaN;
  bool is_suspicious = false;
  if (seen > std::max<std::int64_t>(rule.warm_up, 2)) {
    const double trend_now = trend.at(when);
    const double above = (x - trend_now) * (rule.falling ? -1 : 1);
    const double deviations = above / recent.deviation();
    sum = std::max(0.0, sum + std::min(deviations, kMostDeviations) - rule.slack);
    expected = std::exp(trend_now);
    score = std::min(sum / rule.threshold, above / std::log(rule.ratio));
    is_suspicious = sum > rule.threshold / 4;
  }
  // What may be a drift does not become the trend.
  if (!is_suspicious) {
    const double rest = seen > 2 ? x - trend.at(when) : 0;
    const double most = kMostDeviations * recent.deviation();
    recent.add(seen <= rule.warm_up ? rest : std::clamp(rest, -most, most), weight(rule));
    trend.add(when, x);
  }
  return score;
}

double Rules::State::turbulence(const Rule& rule, double value, double& expected) {
  constexpr double factor = 0.99;
  const double magnitude = std::abs(value);
  const double before = seen == 1 ? magnitude : mean;
  mean = factor * before + (1 - factor) * magnitude;
  if (seen <= std::max<std::int64_t>(rule.warm_up, 1)) return kNaN;
  expected = before;
  return magnitude / (before * (1 + rule.threshold));
}

Rules::Rules(std::vector<Rule> rules) : rules_(std::move(rules)) {
  for (const Rule& rule : rules_) {
    const auto refuse = [&](const char* problem) {
      throw InvalidArgument("rule \"" + rule.name + "\": " + problem);
    };
    const bool needs_threshold = rule.kind != Rule::Kind::kNonFinite;
    if (needs_threshold && !(rule.threshold >= 0)) refuse("expected a threshold of 0 or more");
    const bool needs_ratio = rule.kind == Rule::Kind::kSpike || rule.kind == Rule::Kind::kDrift;
    if (needs_ratio && !(rule.ratio > 1)) refuse("expected a ratio above 1");
    if (rule.window < 1) refuse("expected a window of 1 or more");
    if (rule.warm_up < 0 || rule.cooldown < 0) refuse("expected a warm-up and cooldown of 0 or more");
  }
}

Rules::~Rules() = default;

void Rules::add_series(const std::string& key) {
  std::vector<State>& states = states_.emplace_back();
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (!matches(rules_[i], key)) continue;
    State state;
    state.rule = i;
    states.push_back(state);
  }
}

std::vector<Alarm> Rules::check(std::int64_t step, std::span<const double> values) {
  std::vector<Alarm> alarms;
  for (std::size_t s = 0; s < std::min(values.size(), states_.size()); ++s) {
    if (is_absent(values[s])) continue;
    for (State& state : states_[s]) {
      const Rule& rule = rules_[state.rule];
      double expected = kNaN;
      const double score = state.judge(rule, values[s], expected);
      if (!(score > 1) || step < state.quiet_until) continue;
      state.quiet_until = step + rule.cooldown;
      alarms.push_back({step, static_cast<std::uint32_t>(s), state.rule, values[s], expected, score});
    }
  }
  std::stable_sort(alarms.begin(), alarms.end(),
                   [](const Alarm& a, const Alarm& b) { return a.score > b.score; });
  return alarms;
}

}  // namespace msprobe::monitor

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "base/non_finite.h"
#include "compare/state_walker.h"

namespace msprobe::compare {
namespace {

// An optimizer that divides by the size of the gradient makes a full step of what is next to nothing; two
// such steps in opposite directions.
constexpr double kTwoSteps = 2;

// A step by the rule of its optimizer is at most about 1 off, in what rounding allows. tests/python/training
// has what correct kernels make of it, and other rules.
constexpr double kOtherRule = 32;

// Ways to compute the same thing.
constexpr std::array<std::string_view, 4> kSameRule = {"foreach", "fused", "capturable", "differentiable"};

}  // namespace

Allowance StateWalker::of_state(const std::string& /*parameter*/, const EntryPair& entry) const {
  const Allowance own = rounding(*entry.reference);
  if (before_ == nullptr) return own;
  const auto left = before_->left_behind.find("state." + entry.name);
  return plus(own, left == before_->left_behind.end() ? kThroughAllCalls * before_->noise : left->second);
}

Allowance StateWalker::of_update(const std::string& parameter, const EntryPair& entry, const Reached& before,
                                 const Reached& gradients) {
  const auto state = before.find(entry.name);
  const auto gradient = gradients.find(parameter);
  Allowance allowed = rounding(*entry.reference);
  if (state != before.end()) allowed = plus(allowed, state->second, 1, *entry.reference);
  if (gradient == gradients.end()) return plus(allowed, 2 * largest_of(gradients));
  return plus(allowed, gradient->second, 2, *entry.reference);
}

template <typename Allowed>
Reached StateWalker::states(const Json& ours, const Json& theirs, std::string_view moment, Phase phase,
                            const Allowed& allowed_of) {
  Reached reached;
  std::map<std::string, std::vector<EntryPair>, std::less<>> by_kind;
  for (const EntryPair& parameter : common(ours[moment], theirs[moment])) {
    for (EntryPair& state : common(*parameter.target, *parameter.reference)) {
      const std::string kind = state.name;
      state.name = parameter.name;
      by_kind[kind].push_back(state);
    }
  }
  const std::string when = phase == Phase::kUpdate ? "after" : "before";
  for (auto& [kind, entries] : by_kind) {
    const double floor = negligible(entries);
    for (EntryPair& entry : entries) {
      const Distance apart = entry_distance(*entry.target, *entry.reference, floor);
      const std::string parameter = entry.name;
      entry.name += "." + kind;
      reached[entry.name] = apart;
      Finding* const found =
          add_tensor(FindingKind::kOptimizerState, phase, entry, apart, allowed_of(parameter, entry),
                     when + " the step, the optimizer's state of " + entry.name +
                         " differs by more than what it is made of");
      if (found != nullptr) found->module = module_of(parameter);
    }
  }
  return reached;
}

bool StateWalker::optimizer_settings(const Json& ours, const Json& theirs) {
  bool same = true;
  const auto found = [&](const std::string& name, const Json& a, const Json& b) {
    same = false;
    Finding& finding = add(FindingKind::kOptimizerSetting, Phase::kOptimizerSetting, "optimizer." + name,
                           "optimizer: " + name + " is " + shown(a) + ", in the reference " + shown(b));
    finding.target_value = shown(a);
    finding.reference_value = shown(b);
    finding.effect = kInfinity;
  };
  if (!(ours["class"] == theirs["class"])) found("class", ours["class"], theirs["class"]);
  const auto &groups = ours["groups"].items(), &others = theirs["groups"].items();
  if (groups.size() != others.size()) {
    add(FindingKind::kOptimizerSetting, Phase::kOptimizerSetting, "optimizer.groups",
        "optimizer: it has " + std::to_string(groups.size()) + " groups of parameters, in the reference " +
            std::to_string(others.size()))
        .effect = kInfinity;
    same = false;
  }
  for (std::size_t g = 0; g < std::min(groups.size(), others.size()); ++g) {
    const std::string prefix = "groups." + std::to_string(g);
    for_each_differing(groups[g]["hyper"], others[g]["hyper"], prefix,
                       [&](const std::string& key, const Json& a, const Json& b) {
                         const std::string_view last = std::string_view(key).substr(key.rfind('.') + 1);
                         if (!is_one_of(last, kSameRule)) found(key, a, b);
                       });
    const Json &a = groups[g]["parameters"], &b = others[g]["parameters"];
    if (a == b) continue;
    same = false;
    add(FindingKind::kOptimizerSetting, Phase::kOptimizerSetting, "optimizer." + prefix + ".parameters",
        "optimizer: group " + std::to_string(g) + " has " + std::to_string(a.items().size()) +
            " parameters, in the reference " + std::to_string(b.items().size()) + ", or others")
        .effect = kInfinity;
  }
  return same;
}

void StateWalker::rule(const Json& ours, const Json& theirs) {
  const auto a = number_of(ours["off"]), b = number_of(theirs["off"]);
  if (!a || !b || (*a > kOtherRule) == (*b > kOtherRule)) return;
  const bool is_ours = *a > *b;
  const Json& other = is_ours ? ours : theirs;
  const std::string parameter(other["parameter"].text());
  std::array<char, 64> off{};
  std::snprintf(off.data(), off.size(), "%.2g", std::max(*a, *b));
  Finding& finding =
      add(FindingKind::kUpdate, Phase::kUpdate, "optimizer.step",
          joined({"the step of the optimizer is not that of ", other["rule"].text(),
                  is_ours ? "" : " in the reference", ": the ", other["of"].text(), " of ", parameter,
                  " is off by ", off.data(), " times what rounding allows; the step of the ",
                  is_ours ? "reference" : "target", " is"}));
  finding.module = module_of(parameter);
  finding.strength = std::max(*a, *b) / kOtherRule;
  finding.exact_before = true;
}

void StateWalker::leave_parameters(const Json& step, const Reached& gradients, const Reached& states,
                                   bool same_settings) {
  const Json& parameters = reference_["parameters"];
  for (const Json& group : step["groups"].items()) {
    const double rate = std::abs(number_of(group["hyper"]["lr"]).value_or(0));
    for (const Json& one : group["parameters"].items()) {
      const std::string name(one.text());
      const auto facts = tensor_of(parameters[name]);
      if (!facts) continue;
      const auto gradient = gradients.find(name);
      bool has_noise = !same_settings || gradient == gradients.end() || !gradient->second.equal;
      for (const auto& [state, apart] : states) has_noise |= !apart.equal && state.starts_with(name + ".");
      const double root = std::sqrt(std::max(facts->count, 1.0));
      const double size = facts->typical() * root;
      const double start = entry_distance(target_["parameters"][name], parameters[name]).high;
      const double made = has_noise ? kTwoSteps * rate * root : 0;
      calls_.walk.left_behind[name] = (std::isfinite(start) ? start : 0) * size + made;
    }
  }
}

void StateWalker::optimizer(const Reached& gradients) {
  const auto& ours = target_["optimizer"].items();
  const auto& theirs = reference_["optimizer"].items();
  tell_counts(Phase::kOptimizerSetting, "optimizer.step", "the optimizer steps", ours.size(), theirs.size());
  for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    const bool same_settings = optimizer_settings(ours[i], theirs[i]);
    const Reached before = states(
        ours[i], theirs[i], "state_before", Phase::kOptimizerState,
        [&](const std::string& parameter, const EntryPair& entry) { return of_state(parameter, entry); });
    const Reached after = states(ours[i], theirs[i], "state_after", Phase::kUpdate,
                                 [&](const std::string& parameter, const EntryPair& entry) {
                                   return of_update(parameter, entry, before, gradients);
                                 });
    rule(ours[i]["update"], theirs[i]["update"]);
    for (const auto& [name, apart] : after) calls_.walk.left_behind["state." + name] = apart.high;
    leave_parameters(theirs[i], gradients, before, same_settings);
  }
}

}  // namespace msprobe::compare

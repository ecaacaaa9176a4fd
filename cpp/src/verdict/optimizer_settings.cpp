// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/optimizer_settings.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msprobe::verdict {
namespace {

using trace::Json;

// Ways in which an optimizer computes the same thing.
constexpr std::array<std::string_view, 4> kSameRule = {"foreach", "fused", "capturable", "differentiable"};

// By the class of the optimizer: of torch.optim, and of transformers, timm and schedulefree.
constexpr std::pair<std::string_view, std::string_view> kHoldSteps[] = {
    {"RMSprop", "momentum_buffer"},
    {"RMSpropTF", "momentum_buffer"},
    {"Adadelta", "acc_delta"},
    {"Rprop", "step_size"},
    {"Rprop", "prev"},
    {"ASGD", "ax"},
    {"Adafactor", "exp_avg"},
    {"AdafactorBigVision", "exp_avg"},
    {"AdamWScheduleFree", "z"},
    {"RAdamScheduleFree", "z"},
};

bool is_same_rule(std::string_view setting) {
  return std::find(kSameRule.begin(), kSameRule.end(), setting.substr(setting.rfind('.') + 1)) !=
         kSameRule.end();
}

// The group of each parameter, in the order of the optimizer.
struct Members {
  explicit Members(const Json& groups) {
    for (const Json& group : groups.items()) {
      for (const Json& one : group["parameters"].items()) {
        if (group_of.emplace(one.text(), &group).second) names.emplace_back(one.text());
      }
    }
  }

  std::vector<std::string> names;
  std::map<std::string, const Json*, std::less<>> group_of;
};

bool have_same_parameters(const Json& groups, const Json& others) {
  return std::ranges::equal(groups.items(), others.items(), [](const Json& one, const Json& other) {
    return one["parameters"] == other["parameters"];
  });
}

class Settings {
 public:
  Settings(Findings& found, double error) : found_(found), error_(error) {}

  void compare(const Json& ours, const Json& theirs) {
    const Json &groups = ours["groups"], &others = theirs["groups"];
    const bool are_in_same_groups = have_same_parameters(groups, others);
    if (!(ours["class"] == theirs["class"])) {
      // One that somebody wrote may do what torch's does: its steps tell, where all settings of both are
      // equal.
      bool steps_tell = found_.model().class_of_optimizer && are_in_same_groups;
      if (steps_tell) for_each_other(groups, others, [&](auto&&...) { steps_tell = false; });
      Finding& finding = tell("class", ours["class"], theirs["class"]);
      if (!steps_tell) is_other(finding);
    }
    if (!are_in_same_groups) return by_parameter(groups, others);
    for_each_other(groups, others,
                   [&](const std::string& key, const Json& a, const Json& b) { is_other(tell(key, a, b)); });
  }

  bool are_same() const { return are_same_; }

 private:
  Finding& tell(const std::string& name, const Json& ours, const Json& theirs) {
    return found_.add_values(FindingKind::kOptimizerSetting, Phase::kOptimizerSetting, "optimizer." + name,
                             Reason::kOptimizerSetting, {name}, shown(ours), shown(theirs));
  }

  template <typename Visit>
  void for_each_other(const Json& groups, const Json& others, const Visit& visit) const {
    for (std::size_t g = 0; g < groups.items().size(); ++g)
      for_each_setting(groups.items()[g], others.items()[g], "groups." + std::to_string(g) + '.', visit);
  }

  // What one of them has alone is noted there by somebody else, as a scheduler notes a rate, or it belongs to
  // another class.
  template <typename Visit>
  void for_each_setting(const Json& group, const Json& other, const std::string& prefix,
                        const Visit& visit) const {
    const Json &ours = group["hyper"], &theirs = other["hyper"];
    for (const std::string& key : ours.keys()) {
      const Json* const known = theirs.find(key);
      if (known != nullptr && !is_same_rule(key) && is_other_value(ours[key], *known))
        visit(prefix + key, ours[key], *known);
    }
  }

  bool is_other_value(const Json& ours, const Json& theirs) const {
    return !(ours == theirs) && !is_computed(found_.model(), number_of(ours), number_of(theirs), error_);
  }

  void is_other(Finding& finding) {
    finding.effect = std::numeric_limits<double>::infinity();
    are_same_ = false;
  }

  // The same parameters in other groups, with the same settings, are updated alike.
  void by_parameter(const Json& groups, const Json& others) {
    const Members ours(groups), theirs(others);
    std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>> settings;  // and who has them
    std::vector<std::string> only_ours, only_theirs;
    for (const std::string& name : ours.names) {
      const auto other = theirs.group_of.find(name);
      if (other == theirs.group_of.end()) {
        only_ours.push_back(name);
        continue;
      }
      for_each_setting(*ours.group_of.at(name), *other->second, "",
                       [&](const std::string& key, const Json& a, const Json& b) {
                         const std::vector<std::string> setting = {key, shown(a), shown(b)};
                         const auto known =
                             std::find_if(settings.begin(), settings.end(),
                                          [&](const auto& one) { return one.first == setting; });
                         if (known != settings.end()) return known->second.push_back(name);
                         settings.push_back({setting, {name}});
                       });
    }
    for (const std::string& name : theirs.names) {
      if (!ours.group_of.contains(name)) only_theirs.push_back(name);
    }
    for (auto& [setting, names] : settings) {
      const std::string place = "optimizer." + setting.front();
      setting.push_back(names.front());
      add(place, {Reason::kParameterSetting, std::move(setting)}, names);
    }
    add("optimizer.parameters", {Reason::kOnlyTargetUpdates, {}}, only_ours);
    add("optimizer.parameters", {Reason::kOnlyReferenceUpdates, {}}, only_theirs);
  }

  void add(const std::string& place, Clause because, const std::vector<std::string>& names) {
    if (names.empty()) return;
    if (because.about.empty()) because.about = {names.front()};
    Finding& finding =
        found_.add(FindingKind::kOptimizerSetting, Phase::kOptimizerSetting, place, std::move(because));
    if (names.size() > 1)
      finding.because.push_back({Reason::kAndMoreParameters, {std::to_string(names.size() - 1)}});
    is_other(finding);
  }

  Findings& found_;
  const double error_;
  bool are_same_ = true;
};

}  // namespace

bool add_optimizer_settings(Findings& found, const Json& ours, const Json& theirs, double error) {
  Settings settings(found, error);
  settings.compare(ours, theirs);
  return settings.are_same();
}

bool holds_steps(const Json& step, std::string_view state) {
  const std::string_view name = step["class"].text(), base = step["update"]["rule"].text();
  const std::string_view own = name.substr(name.rfind('.') + 1);
  return std::any_of(std::begin(kHoldSteps), std::end(kHoldSteps), [&](const auto& one) {
    return (one.first == own || one.first == base) && one.second == state;
  });
}

}  // namespace msprobe::verdict

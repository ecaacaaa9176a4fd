// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "compare/state_walk.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <initializer_list>
#include <optional>
#include <span>

#include "base/non_finite.h"
#include "compare/rounding_model.h"
#include "compare/rows.h"
#include "compare/state_entry.h"
#include "msprobe/step_walk.h"

namespace msprobe::compare {
namespace {

using trace::Json;

// Of the gradients of a step, through all its calls, where the calls of the backward pass are not seen one by
// one.
constexpr double kThroughAllCalls = 8;

// An optimizer that divides by the size of the gradient makes a full step of what is next to nothing; two
// such steps in opposite directions.
constexpr double kTwoSteps = 2;

// A step by the rule of its optimizer is at most about 1 off, in what rounding allows. tests/python/training
// has what correct kernels make of it, and other rules.
constexpr double kOtherRule = 32;

// Ways to compute the same thing.
constexpr std::array<std::string_view, 4> kSameRule = {"foreach", "fused", "capturable", "differentiable"};

// What a module says of itself that changes nothing it computes, unless an effect is seen.
constexpr std::array<std::string_view, 5> kHowNotWhat = {"inplace", "recompute", "checkpoint",
                                                         "use_checkpoint", "gradient_checkpointing"};

bool is_one_of(std::string_view word, std::span<const std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string joined(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const std::string_view part : parts) text += part;
  return text;
}

std::string module_of(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string() : std::string(name.substr(0, dot));
}

// Entries of both sides under the same name, in the order of the target.
struct EntryPair {
  std::string name;
  const Json* target;
  const Json* reference;
};

std::vector<EntryPair> common(const Json& target, const Json& reference) {
  std::vector<EntryPair> result;
  for (std::size_t i = 0; i < target.keys().size(); ++i) {
    const Json* const other = reference.find(target.keys()[i]);
    if (other != nullptr) result.push_back({target.keys()[i], &target.items()[i], other});
  }
  return result;
}

// A tenth of the size of a typical element of tensors that belong together, such as all gradients: much
// smaller ones are what rounding leaves where the exact result is zero.
double negligible(const std::vector<EntryPair>& entries) {
  std::vector<double> sizes;
  for (const EntryPair& one : entries) {
    if (const auto facts = tensor_of(*one.reference); facts && facts->typical() > 0)
      sizes.push_back(facts->typical());
  }
  if (sizes.empty()) return 0;
  const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
  std::nth_element(sizes.begin(), middle, sizes.end());
  return kRoundingModel.negligible_gradient * *middle;
}

using Reached = std::map<std::string, Distance, std::less<>>;

class StateWalker {
 public:
  StateWalker(const Json& target, const Json& reference, const StepWalk* before, CallWalk& calls)
      : target_(target), reference_(reference), before_(before), calls_(calls) {}

  void run() {
    random_state();
    inputs();
    parameters();
    buffers();
    modules();
    Reached reached = backward();
    clipping(reached);
    at_optimizer(reached);
    optimizer(reached);
    calls_.walk.has_state = true;
    auto& findings = calls_.walk.findings;
    std::stable_sort(findings.begin(), findings.end(),
                     [](const Finding& a, const Finding& b) { return a.place() < b.place(); });
  }

 private:
  Finding& add(FindingKind kind, Phase phase, std::string name, std::string reason) {
    Finding& finding = calls_.walk.findings.emplace_back();
    finding.kind = kind;
    finding.phase = phase;
    finding.order = ++order_;
    finding.name = std::move(name);
    finding.reason = std::move(reason);
    finding.distance = {
        .value = kInfinity, .low = kInfinity, .high = kInfinity, .bias = 0, .norm = 0, .equal = false};
    ++calls_.walk.differing;
    return finding;
  }

  // A tensor that is farther off than what led to it; nothing where it is not.
  Finding* add_tensor(FindingKind kind, Phase phase, const EntryPair& entry, const Distance& apart,
                      const Allowance& allowed, const std::string& what) {
    if (apart.equal) return nullptr;
    ++calls_.walk.differing;
    const double strength = beyond(apart, allowed);
    if (strength < 1 && strength > calls_.walk.closest.value) calls_.walk.closest = {strength, entry.name};
    if (strength < 1) return nullptr;
    Finding& finding = add(kind, phase, entry.name, what);
    --calls_.walk.differing;
    finding.module = module_of(entry.name);
    finding.distance = apart;
    finding.explained = allowed.magnitude;
    finding.strength = strength;
    finding.exact_before = allowed.magnitude <= kRoundingModel.own * unit_of(*entry.reference);
    tell_values(finding, *entry.target, *entry.reference);
    return &finding;
  }

  static void tell_values(Finding& finding, const Json& target, const Json& reference) {
    if (tensor_of(target) && tensor_of(reference)) return;
    finding.target_value = shown(target);
    finding.reference_value = shown(reference);
  }

  static Allowance rounding(const Json& reference, double times = 1) {
    const auto facts = tensor_of(reference);
    if (!facts) return {};
    const double own = times * kRoundingModel.own * metrics::unit_roundoff(facts->dtype);
    return {own,
            own / std::sqrt(std::max(facts->count, 1.0)) + times * kRoundingModel.bias * unit_of(reference)};
  }

  static Allowance plus(const Allowance& a, double high) { return {a.magnitude + high, a.bias + high}; }

  // ---- What the step begins with

  void random_state() {
    for (const EntryPair& one : common(target_["rng"]["start"], reference_["rng"]["start"])) {
      if (*one.target == *one.reference) continue;
      add(FindingKind::kRandomness, Phase::kRandomState, "rng." + one.name,
          "the random generator " + one.name + " stands elsewhere when the step begins");
      --calls_.walk.differing;  // it is no value of the training
    }
  }

  void inputs() {
    const auto& ours = target_["inputs"].items();
    const auto& theirs = reference_["inputs"].items();
    for (std::size_t call = 0; call < std::min(ours.size(), theirs.size()); ++call) {
      const std::string prefix = ours.size() > 1 ? "inputs." + std::to_string(call) + "." : "inputs.";
      named(FindingKind::kInputData, Phase::kInputs, "input", ours[call]["tensors"], theirs[call]["tensors"],
            prefix, [](const EntryPair&, const metrics::TensorFacts& facts) {
              return source_allowance(result_of(facts));
            });
    }
    calls_.walk.divided_otherwise = ours.size() != theirs.size();
    tell_counts(Phase::kInputs, "model", "the model is called", ours.size(), theirs.size());
  }

  void tell_counts(Phase phase, const std::string& name, const std::string& what, std::size_t ours,
                   std::size_t theirs) {
    if (ours == theirs) return;
    const FindingKind kind = ours > theirs ? FindingKind::kExtraCall : FindingKind::kMissingCall;
    Finding& finding =
        add(kind, phase, name,
            what + " " + std::to_string(ours) + " times, in the reference " + std::to_string(theirs));
    finding.target_value = std::to_string(ours);
    finding.reference_value = std::to_string(theirs);
  }

  // Tensors and values by name; those that one side has alone. Returns the largest distance that is known.
  template <typename Allowed>
  double named(FindingKind kind, Phase phase, const std::string& what, const Json& ours, const Json& theirs,
               const std::string& prefix, const Allowed& allowed_of) {
    double largest = 0;
    for (EntryPair& entry : common(ours, theirs)) {
      const Distance apart = entry_distance(*entry.target, *entry.reference);
      if (apart.equal) continue;
      if (std::isfinite(apart.high)) largest = std::max(largest, apart.high);
      const auto facts = tensor_of(*entry.reference);
      const Allowance allowed = facts ? allowed_of(entry, *facts) : Allowance{};
      const std::string bare = entry.name;
      entry.name = prefix + bare;
      Finding* const found = add_tensor(kind, phase, entry, apart, allowed,
                                        joined({what, " ", bare, " differs before anything was computed"}));
      if (found != nullptr) found->module = kind == FindingKind::kInputData ? std::string() : module_of(bare);
    }
    tell_lone(kind, phase, what, ours, theirs, prefix, "the target");
    tell_lone(kind, phase, what, theirs, ours, prefix, "the reference");
    return largest;
  }

  void tell_lone(FindingKind kind, Phase phase, const std::string& what, const Json& has, const Json& lacks,
                 const std::string& prefix, const std::string& side) {
    for (const std::string& name : has.keys()) {
      if (lacks.find(name) != nullptr) continue;
      add(kind, phase, prefix + name, joined({"only ", side, " has the ", what, " ", name})).module =
          module_of(name);
    }
  }

  void parameters() {
    const Json &ours = target_["parameters"], &theirs = reference_["parameters"];
    apart_at_start_ = named(FindingKind::kWeight, Phase::kParameters, "parameter", ours, theirs, "",
                            [this](const EntryPair& entry, const metrics::TensorFacts& facts) {
                              return of_parameter(entry, facts);
                            });
    for (const EntryPair& one : common(ours, theirs)) {
      const Json &a = (*one.target)["requires_grad"], &b = (*one.reference)["requires_grad"];
      if (a == b) continue;
      Finding& finding =
          add(FindingKind::kWeight, Phase::kParameters, one.name,
              "parameter " + one.name + ": requires_grad is " + shown(a) + ", in the reference " + shown(b));
      finding.module = module_of(one.name);
      finding.target_value = shown(a);
      finding.reference_value = shown(b);
    }
  }

  // As the optimizer left it.
  Allowance of_parameter(const EntryPair& entry, const metrics::TensorFacts& facts) const {
    if (before_ == nullptr) return source_allowance(result_of(facts));
    const Allowance own = rounding(*entry.reference);
    if (facts.min && facts.max) {
      const auto updated = before_->updated.find(updated_key(*facts.min, *facts.max));
      if (updated != before_->updated.end()) return plus(own, updated->second);
    }
    const auto left = before_->left_behind.find(entry.name);
    const double size = facts.typical() * std::sqrt(std::max(facts.count, 1.0));
    return plus(own, left == before_->left_behind.end() || size == 0 ? kThroughAllCalls * before_->noise
                                                                     : left->second / size);
  }

  void buffers() {
    const double noise = before_ == nullptr ? 0 : kThroughAllCalls * before_->noise;
    named(FindingKind::kBuffer, Phase::kBuffers, "buffer", target_["buffers"], reference_["buffers"], "",
          [noise](const EntryPair& entry, const metrics::TensorFacts&) {
            return plus(rounding(*entry.reference), noise);
          });
  }

  void modules() {
    for (const EntryPair& module : common(target_["modules"], reference_["modules"])) {
      for (const std::string_view key : {"class", "training"}) {
        setting(module.name, std::string(key), (*module.target)[key], (*module.reference)[key]);
      }
      const Json &ours = (*module.target)["settings"], &theirs = (*module.reference)["settings"];
      for_each_differing(ours, theirs, "", [&](const std::string& name, const Json& a, const Json& b) {
        setting(module.name, name, a, b);
      });
    }
  }

  void setting(const std::string& path, const std::string& name, const Json& ours, const Json& theirs) {
    if (ours == theirs) return;
    Finding& finding =
        add(FindingKind::kModuleAttribute, Phase::kModules, path.empty() ? name : path + "." + name,
            "module " + (path.empty() ? "(the model)" : path) + ": " + name + " is " + shown(ours) +
                ", in the reference " + shown(theirs));
    finding.module = path;
    finding.target_value = shown(ours);
    finding.reference_value = shown(theirs);
    const auto a = number_of(ours), b = number_of(theirs);
    const bool is_other_number = a && b && (*a != std::floor(*a) || *b != std::floor(*b));
    const auto seen = calls_.strength_of_modules.find(path);
    if (seen != calls_.strength_of_modules.end()) {
      finding.effect = seen->second;
    } else if (!calls_.strength_of_modules.empty() || is_one_of(name, kHowNotWhat)) {
      finding.effect = 0;
    }
    finding.is_hidden = is_other_number && finding.effect < 1 && calls_.walk.noise > 0;
  }

  // Calls visit(name, ours, theirs) for what differs of two values, entry by entry of objects.
  template <typename Visit>
  static void for_each_differing(const Json& ours, const Json& theirs, const std::string& name,
                                 const Visit& visit) {
    if (!ours.is_object() || !theirs.is_object()) {
      if (!(ours == theirs)) visit(name, ours, theirs);
      return;
    }
    const std::string prefix = name.empty() ? "" : name + ".";
    for (const std::string& key : ours.keys()) {
      if (!(ours[key] == theirs[key])) visit(prefix + key, ours[key], theirs[key]);
    }
    for (const std::string& key : theirs.keys()) {
      if (ours.find(key) == nullptr && !theirs[key].is_null()) visit(prefix + key, ours[key], theirs[key]);
    }
  }

  // ---- What becomes of the gradients

  // Tensors of one moment against what the moment before explains.
  template <typename Before>
  Reached stage(FindingKind kind, Phase phase, const std::string& what, const Json& ours, const Json& theirs,
                const Before& before) {
    Reached reached;
    const std::vector<EntryPair> entries = common(ours, theirs);
    const double floor = negligible(entries);
    for (const EntryPair& entry : entries) {
      const Distance apart = entry_distance(*entry.target, *entry.reference, floor);
      reached[entry.name] = apart;
      add_tensor(kind, phase, entry, apart, before(entry),
                 what + " " + entry.name + " differs by more than what it is made of");
    }
    return reached;
  }

  Reached backward() {
    const auto& ours = target_["backward"].items();
    const auto& theirs = reference_["backward"].items();
    const double noise = std::max(calls_.walk.noise, calls_.gradients);
    const bool has_calls = calls_.walk.compared > 0;
    const auto of_calls = [&](const EntryPair& entry) {
      if (!has_calls) return Allowance{kInfinity, kInfinity};
      return plus(rounding(*entry.reference, kThroughAllCalls), kThroughAllCalls * noise);
    };
    Reached reached;
    // Where a batch is divided otherwise, only what all parts add up to is the same.
    const std::size_t common = std::min(ours.size(), theirs.size());
    const std::size_t begin = ours.size() == theirs.size() || common == 0 ? 0 : common - 1;
    for (std::size_t i = begin; i < common; ++i) {
      const Json &a = ours[ours.size() - common + i], &b = theirs[theirs.size() - common + i];
      const Reached local = stage(FindingKind::kGradient, Phase::kGradients, "the gradient of",
                                  a["before_reduction"], b["before_reduction"], of_calls);
      const bool is_reduced = !local.empty();
      reached = stage(is_reduced ? FindingKind::kReduction : FindingKind::kGradient,
                      is_reduced ? Phase::kReduction : Phase::kGradients, "the reduced gradient of",
                      a["after_reduction"], b["after_reduction"], [&](const EntryPair& entry) {
                        const auto found = local.find(entry.name);
                        return found == local.end() ? of_calls(entry)
                                                    : plus(rounding(*entry.reference), found->second.high);
                      });
    }
    tell_counts(Phase::kGradients, "backward", "backward() runs", ours.size(), theirs.size());
    for (const auto& [name, apart] : reached) note_gradient(name, apart);
    return reached;
  }

  void note_gradient(const std::string& name, const Distance& apart) {
    Largest& largest = calls_.walk.largest_gradient;
    if (std::isfinite(apart.value) && apart.value > largest.value) largest = {apart.value, name};
  }

  static double largest_of(const Reached& reached) {
    double high = 0;
    for (const auto& [name, apart] : reached) high = std::max(high, apart.high);
    return high;
  }
  // The moment before, or anything of it where this very tensor is not known.
  static Allowance after(const Reached& reached, const EntryPair& entry) {
    const auto found = reached.find(entry.name);
    return plus(rounding(*entry.reference),
                found == reached.end() ? largest_of(reached) : found->second.high);
  }

  void clipping(Reached& reached) {
    before_clipping_ = reached;
    const auto& ours = target_["clipping"].items();
    const auto& theirs = reference_["clipping"].items();
    for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
      for (const std::string_view part : {"function", "arguments"}) {
        const std::string name = "clipping." + std::string(part);
        for_each_differing(
            ours[i][part], theirs[i][part], name, [&](const std::string& key, const Json& a, const Json& b) {
              Finding& finding =
                  add(FindingKind::kClipping, Phase::kClipping, key,
                      "gradient clipping: " + key + " is " + shown(a) + ", in the reference " + shown(b));
              finding.target_value = shown(a);
              finding.reference_value = shown(b);
              finding.effect = kInfinity;
              ways_of_clipping_.push_back(calls_.walk.findings.size() - 1);
            });
      }
      const Reached before =
          stage(FindingKind::kGradient, Phase::kReduction, "before clipping, the gradient of",
                ours[i]["before"], theirs[i]["before"], [&](const EntryPair& entry) {
                  return reached.empty() ? Allowance{kInfinity, kInfinity} : after(reached, entry);
                });
      const Reached& known = before.empty() ? reached : before;
      if (i == 0) before_clipping_ = known;
      const double everything = largest_of(known);  // the total norm spreads every difference
      reached = stage(FindingKind::kClipping, Phase::kClipping, "the clipped gradient of", ours[i]["after"],
                      theirs[i]["after"], [&](const EntryPair& entry) {
                        return plus(rounding(*entry.reference), kThroughAllCalls * everything);
                      });
    }
    if (ours.size() != theirs.size()) {
      add(FindingKind::kClipping, Phase::kClipping, "clipping",
          "gradients are clipped " + std::to_string(ours.size()) + " times, in the reference " +
              std::to_string(theirs.size()))
          .effect = kInfinity;
      ways_of_clipping_.push_back(calls_.walk.findings.size() - 1);
    }
  }

  // Another way to clip is a cause where the optimizer gets other gradients than before the clipping.
  void find_effect_of_clipping(const Json& ours, const Json& theirs) {
    const double before = largest_of(before_clipping_);  // the total norm spreads every difference
    const std::vector<EntryPair> entries = common(ours, theirs);
    if (ways_of_clipping_.empty() || entries.empty() || before_clipping_.empty()) return;
    const double floor = negligible(entries);
    double effect = 0, bias = 0, unit = 0, count = 0;
    std::array<double, 2> squares{};
    for (const auto& [name, apart] : before_clipping_) bias = std::max(bias, apart.bias);
    for (const EntryPair& entry : entries) {
      const Allowance allowed = plus(rounding(*entry.reference), kThroughAllCalls * before);
      effect = std::max(effect, beyond(entry_distance(*entry.target, *entry.reference, floor), allowed));
      const auto a = tensor_of(*entry.target), b = tensor_of(*entry.reference);
      if (!a || !b) continue;
      squares[0] += a->count * a->typical() * a->typical();
      squares[1] += b->count * b->typical() * b->typical();
      unit = std::max(unit, unit_of(*entry.reference));
      count += b->count;
    }
    if (squares[1] > 0) {  // all of them are multiplied by one number, and errors average out in their norm
      const double apart = std::abs(std::sqrt(squares[0] / squares[1]) - 1);
      const double allowed = bias + unit + (before + unit) / std::sqrt(std::max(count, 1.0));
      effect = std::max(effect, apart / (kRoundingModel.beyond * allowed));
    }
    for (const std::size_t index : ways_of_clipping_) calls_.walk.findings[index].effect = effect;
  }

  void at_optimizer(Reached& reached) {
    const auto& ours = target_["gradients_at_optimizer"].items();
    const auto& theirs = reference_["gradients_at_optimizer"].items();
    bool all_agree = !ours.empty() && ours.size() == theirs.size();
    for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
      const Reached now =
          stage(FindingKind::kGradient, Phase::kAtOptimizer, "the gradient that the optimizer gets for",
                ours[i]["gradients"], theirs[i]["gradients"], [&](const EntryPair& entry) {
                  return reached.empty() ? Allowance{kInfinity, kInfinity} : after(reached, entry);
                });
      if (i == 0) find_effect_of_clipping(ours[i]["gradients"], theirs[i]["gradients"]);
      for (const auto& [name, apart] : now) reached[name] = apart;
      all_agree &= agree(now, ours[i]["gradients"], theirs[i]["gradients"]);
    }
    calls_.walk.gradients_agree = all_agree;
  }

  // Whether all gradients were compared, and are no farther off than a model that is computed once on equal
  // weights and data may be.
  bool agree(const Reached& compared, const Json& ours, const Json& theirs) const {
    if (compared.empty() || compared.size() != ours.keys().size() || compared.size() != theirs.keys().size())
      return false;
    return std::all_of(compared.begin(), compared.end(), [&](const auto& one) {
      const auto& [name, apart] = one;
      const double most = std::max(4 * kRoundingModel.most_roundings * unit_of(theirs[name]),
                                   kThroughAllCalls * apart_at_start_);
      return apart.equal || apart.high <= std::min(most, kRoundingModel.most_of_gradients);
    });
  }

  // ---- The optimizer

  void optimizer(const Reached& gradients) {
    const auto& ours = target_["optimizer"].items();
    const auto& theirs = reference_["optimizer"].items();
    tell_counts(Phase::kOptimizerSetting, "optimizer.step", "the optimizer steps", ours.size(),
                theirs.size());
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

  // Where one of the runs steps by the rule of its optimizer, and the other does not.
  void rule(const Json& ours, const Json& theirs) {
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

  // False when a setting differs that changes what is computed.
  bool optimizer_settings(const Json& ours, const Json& theirs) {
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

  // States by their names, "{parameter}.{state}"; `allowed_of` is given the parameter.
  template <typename Allowed>
  Reached states(const Json& ours, const Json& theirs, std::string_view moment, Phase phase,
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

  Allowance of_state(const std::string& /*parameter*/, const EntryPair& entry) const {
    const Allowance own = rounding(*entry.reference);
    if (before_ == nullptr) return own;
    const auto left = before_->left_behind.find("state." + entry.name);
    return plus(own, left == before_->left_behind.end() ? kThroughAllCalls * before_->noise : left->second);
  }

  // Squares double a relative error.
  static Allowance of_update(const std::string& parameter, const EntryPair& entry, const Reached& before,
                             const Reached& gradients) {
    const auto state = before.find(entry.name);
    const auto gradient = gradients.find(parameter);
    double high = state == before.end() ? 0 : state->second.high;
    high += 2 * (gradient == gradients.end() ? largest_of(gradients) : gradient->second.high);
    return plus(rounding(*entry.reference), high);
  }

  // How far off, as L2 norms, the parameters may be after this step.
  void leave_parameters(const Json& step, const Reached& gradients, const Reached& states,
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

  const Json& target_;
  const Json& reference_;
  const StepWalk* before_;
  CallWalk& calls_;
  double order_ = 0;
  double apart_at_start_ = 0;                  // of parameters
  Reached before_clipping_;                    // the gradients
  std::vector<std::size_t> ways_of_clipping_;  // findings
};

}  // namespace

void walk_state(const trace::TrainingState& target, const trace::TrainingState& reference,
                const StepWalk* before, CallWalk& calls) {
  StateWalker(target.root, reference.root, before, calls).run();
}

}  // namespace msprobe::compare

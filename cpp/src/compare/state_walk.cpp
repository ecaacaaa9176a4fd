// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "compare/state_walk.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "base/non_finite.h"
#include "compare/state_walker.h"

namespace msprobe::compare {
namespace {

// What a module says of itself that changes nothing it computes, unless an effect is seen.
constexpr std::array<std::string_view, 5> kHowNotWhat = {"inplace", "recompute", "checkpoint",
                                                         "use_checkpoint", "gradient_checkpointing"};

}  // namespace

void StateWalker::run() {
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

Finding& StateWalker::add(FindingKind kind, Phase phase, std::string name, std::string reason) {
  Finding& finding = calls_.walk.findings.emplace_back();
  finding.kind = kind;
  finding.phase = phase;
  finding.order = ++order_;
  finding.name = std::move(name);
  finding.reason = std::move(reason);
  finding.distance = Distance::unmeasurable();
  ++calls_.walk.differing;
  return finding;
}

Finding* StateWalker::add_tensor(FindingKind kind, Phase phase, const EntryPair& entry, const Distance& apart,
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
  finding.exact_before = allowed.magnitude <= own_rounding(unit_of(*entry.reference));
  tell_values(finding, *entry.target, *entry.reference);
  return &finding;
}

void StateWalker::tell_values(Finding& finding, const Json& target, const Json& reference) {
  if (tensor_of(target) && tensor_of(reference)) return;
  finding.target_value = shown(target);
  finding.reference_value = shown(reference);
}

Allowance StateWalker::rounding(const Json& reference, double times) {
  const auto facts = tensor_of(reference);
  if (!facts) return {};
  const double own = times * own_rounding(metrics::unit_roundoff(facts->dtype));
  return {own,
          own / std::sqrt(std::max(facts->count, 1.0)) + times * kRoundingModel.bias * unit_of(reference)};
}

Allowance StateWalker::plus(const Allowance& a, const Distance& led, double times, const Json& reference) {
  const auto facts = tensor_of(reference);
  const Result result = facts ? result_of(*facts) : Result{};
  // Of squares, errors e of each element x move the norm by at most e max(x) / |x|.
  const double share = result.norm > 0 ? std::min(result.largest / result.norm, 1.0) : 1;
  return {a.magnitude + times * led.expected, a.bias + times * (led.bias + led.expected * share)};
}

// ---- What the step begins with

void StateWalker::random_state() {
  for (const EntryPair& one : common(target_["rng"]["start"], reference_["rng"]["start"])) {
    if (*one.target == *one.reference) continue;
    add(FindingKind::kRandomness, Phase::kRandomState, "rng." + one.name,
        "the random generator " + one.name + " stands elsewhere when the step begins");
    --calls_.walk.differing;  // it is no value of the training
  }
}

void StateWalker::tell_counts(Phase phase, const std::string& name, const std::string& what, std::size_t ours,
                              std::size_t theirs) {
  if (ours == theirs) return;
  const FindingKind kind = ours > theirs ? FindingKind::kExtraCall : FindingKind::kMissingCall;
  Finding& finding =
      add(kind, phase, name,
          what + " " + std::to_string(ours) + " times, in the reference " + std::to_string(theirs));
  finding.target_value = std::to_string(ours);
  finding.reference_value = std::to_string(theirs);
}

void StateWalker::tell_lone(FindingKind kind, Phase phase, const std::string& what, const Json& has,
                            const Json& lacks, const std::string& prefix, const std::string& side) {
  for (const std::string& name : has.keys()) {
    if (lacks.find(name) != nullptr) continue;
    add(kind, phase, prefix + name, joined({"only ", side, " has the ", what, " ", name})).module =
        module_of(name);
  }
}

template <typename Allowed>
double StateWalker::named(FindingKind kind, Phase phase, const std::string& what, const Json& ours,
                          const Json& theirs, const std::string& prefix, const Allowed& allowed_of) {
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

void StateWalker::inputs() {
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

Allowance StateWalker::of_parameter(const EntryPair& entry, const metrics::TensorFacts& facts) const {
  if (before_ == nullptr) return source_allowance(result_of(facts));
  const Allowance own = rounding(*entry.reference);
  if (const metrics::Distance* updated = before_->updated.find(facts)) return plus(own, updated->high);
  const auto left = before_->left_behind.find(entry.name);
  const double size = facts.typical() * std::sqrt(std::max(facts.count, 1.0));
  return plus(own, left == before_->left_behind.end() || size == 0 ? kThroughAllCalls * before_->noise
                                                                   : left->second / size);
}

void StateWalker::parameters() {
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

void StateWalker::buffers() {
  const double noise = before_ == nullptr ? 0 : kThroughAllCalls * before_->noise;
  named(FindingKind::kBuffer, Phase::kBuffers, "buffer", target_["buffers"], reference_["buffers"], "",
        [noise](const EntryPair& entry, const metrics::TensorFacts&) {
          return plus(rounding(*entry.reference), noise);
        });
}

void StateWalker::setting(const std::string& path, const std::string& name, const Json& ours,
                          const Json& theirs) {
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

void StateWalker::modules() {
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

void walk_state(const trace::TrainingState& target, const trace::TrainingState& reference,
                const StepWalk* before, CallWalk& calls) {
  StateWalker(target.root, reference.root, before, calls).run();
}

}  // namespace msprobe::compare

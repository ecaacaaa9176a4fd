// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "base/non_finite.h"
#include "compare/state_walker.h"

namespace msprobe::compare {

template <typename Before>
Reached StateWalker::stage(FindingKind kind, Phase phase, const std::string& what, const Json& ours,
                           const Json& theirs, const Before& before) {
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

Reached StateWalker::backward() {
  const auto& ours = target_["backward"].items();
  const auto& theirs = reference_["backward"].items();
  const double noise = std::max(calls_.walk.noise, calls_.gradients);
  const bool has_calls = calls_.walk.compared > 0;
  const auto of_calls = [&](const EntryPair& entry) {
    if (!has_calls) return Allowance{kInfinity, kInfinity};
    if (const Distance* const made = made_by_calls(entry)) {
      Allowance allowed = rounding(*entry.reference);
      allowed.magnitude += made->high;
      allowed.bias += made->bias;
      return allowed;
    }
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

const metrics::Distance* StateWalker::made_by_calls(const EntryPair& entry) const {
  const auto facts = tensor_of(*entry.reference);
  return facts ? calls_.gradients_of_parameters.find(*facts) : nullptr;
}

void StateWalker::note_gradient(const std::string& name, const Distance& apart) {
  Largest& largest = calls_.walk.largest_gradient;
  if (std::isfinite(apart.value) && apart.value > largest.value) largest = {apart.value, name};
}

double StateWalker::largest_of(const Reached& reached) {
  double high = 0;
  for (const auto& [name, apart] : reached) high = std::max(high, apart.high);
  return high;
}

Allowance StateWalker::after(const Reached& reached, const EntryPair& entry) {
  const auto found = reached.find(entry.name);
  return plus(rounding(*entry.reference), found == reached.end() ? largest_of(reached) : found->second.high);
}

void StateWalker::clipping(Reached& reached) {
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

void StateWalker::find_effect_of_clipping(const Json& ours, const Json& theirs) {
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

void StateWalker::at_optimizer(Reached& reached) {
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

bool StateWalker::agree(const Reached& compared, const Json& ours, const Json& theirs) const {
  if (compared.empty() || compared.size() != ours.keys().size() || compared.size() != theirs.keys().size())
    return false;
  return std::all_of(compared.begin(), compared.end(), [&](const auto& one) {
    const auto& [name, apart] = one;
    const double most = std::max(4 * kRoundingModel.most_roundings * unit_of(theirs[name]),
                                 kThroughAllCalls * apart_at_start_);
    return apart.equal || apart.high <= std::min(most, kRoundingModel.most_of_gradients);
  });
}

}  // namespace msprobe::compare

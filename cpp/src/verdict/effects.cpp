// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/effects.h"

#include <algorithm>

namespace msprobe::verdict {
namespace {

// Without modules and values that can be followed, what comes of a call is looked for in so many of the next.
// Chosen, not measured: the next call alone may not touch what this one made; each further one is one more
// whose own difference is taken for a consequence.
constexpr int kCallsToLookAt = 4;

}  // namespace

double Effects::in_call(std::uint32_t record, bool decides) const {
  const Outcome& seen = outcomes_[record];
  double effect = seen.effect(decides);
  if (seen.visible < 1) {
    if (const auto backward = calls_.backward_of(record))
      effect = std::max(effect, outcomes_[*backward].effect(decides));
  }
  return effect;
}

// No call makes another result of equal tensors and arguments.
bool Effects::find_same_kernels() const {
  for (std::uint32_t i = 0; i < outcomes_.size(); ++i) {
    const Outcome& seen = outcomes_[i];
    if (!seen.in_is_equal || seen.out_is_equal || seen.has_other_arguments || is_module(calls_.name(i)))
      continue;
    const auto forward = calls_.forward_of(i);
    if (!forward || !outcomes_[*forward].has_other_arguments) return false;
  }
  return true;
}

bool Effects::is_of_argument(std::uint32_t record) {
  const auto begins = [](const Outcome& one) { return one.in_is_equal && !one.out_is_equal && one.arrives; };
  const auto backward = calls_.backward_of(record);
  if (!begins(outcomes_[record]) && !(backward && begins(outcomes_[*backward]))) return false;
  if (!kernels_are_the_same_) kernels_are_the_same_ = find_same_kernels();
  return *kernels_are_the_same_;
}

double Effects::around(std::string_view module, bool of_reference, std::uint32_t next) const {
  const Run& run = of_reference ? calls_.theirs() : calls_.ours();
  for (int depth = 0; run.construct != nullptr && !module.empty() && depth < kDeepest; ++depth) {
    if (const auto found = run.trace.find(module)) {
      const auto index = static_cast<std::uint32_t>(*found);
      const std::uint32_t ours = of_reference ? calls_.of_reference(index) : index;
      if (ours != trace::kNoMatch && (outcomes_[ours].has_result || outcomes_[ours].visible > 0))
        return outcomes_[ours].visible;
    }
    module = run.parent(module);
  }
  double effect = 0;
  int looked_at = 0;
  for (std::uint32_t i = next; i < calls_.count() && looked_at < kCallsToLookAt; ++i) {
    if (!calls_.is_paired(i) || trace::holds_gradients(calls_.name(i))) continue;
    effect = std::max(effect, outcomes_[i].visible);
    ++looked_at;
  }
  return looked_at == 0 ? kInfinity : effect;
}

}  // namespace msprobe::verdict

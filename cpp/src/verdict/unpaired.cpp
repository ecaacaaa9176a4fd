// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/unpaired.h"

#include <algorithm>

#include "verdict/findings.h"

namespace msprobe::verdict {
namespace {

using operators::Gain;

// Whether a run would have recorded a call of the other one: a level has modules, functions, or both.
bool would_have(const Trace& trace, const Trace& other, std::string_view name) {
  return trace.level() == other.level() || trace.level() != (is_module(name) ? "L1" : "L0");
}

}  // namespace

Unpaired::Unpaired(const Calls& calls) : calls_(calls) {
  // Records that only the reference has, by the record of the target before which they would stand.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> missing;
  std::uint32_t before = 0;
  for (std::uint32_t i = 0; i < calls.reference().records().size(); ++i) {
    const std::string_view name = calls.theirs().name(i);
    if (trace::holds_gradients(name)) continue;
    if (calls.theirs().is_paired(i)) {
      before = calls.of_reference(i) + 1;
    } else if (would_have(calls.target(), calls.reference(), name)) {
      missing.emplace_back(before, i);
    }
  }
  std::stable_sort(missing.begin(), missing.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  auto next = missing.begin();
  for (std::uint32_t i = 0; i <= calls.count(); ++i) {
    for (; next != missing.end() && next->first <= i; ++next) add(next->second, next->first, true);
    const bool is_extra = i < calls.count() && !calls.is_paired(i) &&
                          !trace::holds_gradients(calls.name(i)) &&
                          would_have(calls.reference(), calls.target(), calls.name(i));
    if (is_extra) add(i, i, false);
  }
}

std::optional<std::uint32_t> Unpaired::found(const Groups& groups, std::uint32_t record) {
  const auto place = groups.find(record);
  return place == groups.end() ? std::nullopt : std::optional(place->second);
}

// The outermost module around a call that the other run has not either, and the first around that it has.
Unpaired::Outside Unpaired::outside(const Run& run, std::string_view call) {
  Outside place{call, {}};
  for (int depth = 0; depth < kDeepest; ++depth) {
    const std::string_view parent = run.parent(place.outermost);
    const auto found = parent.empty() ? std::nullopt : run.trace.find(parent);
    if (!found || run.is_paired(static_cast<std::uint32_t>(*found))) {
      place.around = parent;
      return place;
    }
    place.outermost = parent;
  }
  return place;
}

void Unpaired::add(std::uint32_t record, std::uint32_t next, bool is_missing) {
  const Run& run = is_missing ? calls_.theirs() : calls_.ours();
  const std::string_view call = run.name(record);
  const Outside place = outside(run, call);
  std::optional<std::uint32_t>& last = last_[is_missing];
  const bool goes_on = last && groups_[*last].first + groups_[*last].count == record &&
                       groups_[*last].around == place.around &&
                       is_backward(groups_[*last].name) == is_backward(call);
  if (!goes_on) {
    if (groups_.size() == kMostFindings) return;  // each may be one
    UnpairedCalls group;
    group.name = place.outermost;
    group.first = record;
    group.next = next;
    group.is_missing = is_missing;
    group.around = place.around;
    const bool is_behind = calls_.count() > 0 && next >= calls_.end_of_backward() &&
                           calls_.is_after_backward(std::min(next, calls_.count() - 1));
    const bool is_of_optimizer =
        place.around == "optimizer" ||
        (operators::find(operator_name(call)).gain == Gain::kUpdate && place.around.empty());
    group.is_handling = !is_of_optimizer && is_behind && place.around.empty() &&
                        !is_module(place.outermost) && !is_backward(call);
    group.is_update = is_of_optimizer || group.is_handling;
    last = static_cast<std::uint32_t>(groups_.size());
    groups_.push_back(std::move(group));
  }
  UnpairedCalls& group = groups_[*last];
  const bool is_more = !is_by_the_way(place.outermost);
  if (goes_on && is_more && is_by_the_way(group.name)) group.name = place.outermost;
  ++group.count;
  groups_of_[is_missing][record] = *last;
}

// It moves elements, or makes a constant: for another call.
bool Unpaired::is_by_the_way(std::string_view call) const {
  const operators::Row by = calls_.operator_of(call);
  return !is_module(call) && (by.gain == Gain::kNone || (by.only_moves() && !by.fills));
}

void Unpaired::note(std::uint32_t group, std::uint32_t record, double effect) {
  UnpairedCalls& one = groups_[group];
  one.effect = std::max(one.effect.value_or(0), effect);
  const bool is_of_backward = calls_.is_in_backward(record) || is_backward(calls_.name(record));
  if (effect >= 1 && is_of_backward && calls_.model().in_backward) one.is_update = one.is_handling = false;
}

std::vector<std::uint32_t> Unpaired::takers(std::uint32_t backward) const {
  std::vector<std::uint32_t> found;
  if (!calls_.model().takers) return found;
  const auto add_followers = [&](const Run& run, ItemIndex item, const Groups& groups) {
    while ((item = run.flow().follower(item)) != kNoItem) {
      const auto group = Unpaired::found(groups, run.flow().record(item));
      if (group && !is_backward(groups_[*group].name)) found.push_back(*group);
    }
  };
  const auto forward = calls_.forward_of(backward);
  for (const ItemPair& row : forward ? calls_.rows_of(*forward) : std::span<const ItemPair>()) {
    if (!calls_.is_result(row)) continue;
    add_followers(calls_.theirs(), row.reference.index, groups_of_[1]);
    add_followers(calls_.ours(), row.target, groups_of_[0]);
  }
  return found;
}

}  // namespace msprobe::verdict

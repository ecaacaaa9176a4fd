// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/unpaired.h"

#include <algorithm>
#include <cmath>

#include "verdict/findings.h"
#include "verdict/state_entry.h"

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
    const bool is_behind = calls_.count() > 0 && calls_.is_after_backward(std::min(next, calls_.count() - 1));
    group.is_update =
        place.around == "optimizer" ||
        (operators::find(operator_name(call)).gain == Gain::kUpdate && place.around.empty()) ||
        (is_behind && place.around.empty() && !is_module(place.outermost) && !is_backward(call));
    last = static_cast<std::uint32_t>(groups_.size());
    groups_.push_back(std::move(group));
  }
  UnpairedCalls& group = groups_[*last];
  const bool is_more = !is_by_the_way(place.outermost);
  if (goes_on && is_more && is_by_the_way(group.name)) group.name = place.outermost;
  ++group.count;
  if (const std::uint32_t functions = functions_in(run, record)) {
    group.computing += functions;
    group.computes = call;
  }
  for (const Item& item : run.items(record))
    group.unit = std::max(group.unit, metrics::unit_roundoff(item.element_type()));
  groups_of_[is_missing][record] = *last;
}

// It moves elements, or makes a constant: for another call.
bool Unpaired::is_by_the_way(std::string_view call) const {
  const operators::Row by = calls_.operator_of(call);
  return !is_module(call) && (by.gain == Gain::kNone || (by.only_moves() && !by.fills));
}

// 1 where numbers of floating point come out that are not just moved, 2 where they are sums of products: with
// those, terms may cancel out.
std::uint32_t Unpaired::functions_in(const Run& run, std::uint32_t record) const {
  const operators::Row by = calls_.operator_of(run.name(record));
  if (is_module(run.name(record)) || by.only_moves()) return 0;
  const bool computes = std::ranges::any_of(run.items(record), [&](const Item& item) {
    const double unit = metrics::unit_roundoff(trace::dtype_of(run.trace.text(item.dtype)));
    return !is_input(item.part) && unit > 0;
  });
  const bool sums = by.gain == Gain::kProduct || by.gain == Gain::kAttention || by.gain == Gain::kRecurrent;
  return computes ? (sums ? 2 : 1) : 0;
}

void Unpaired::note(std::uint32_t group, std::uint32_t record, double effect) {
  UnpairedCalls& one = groups_[group];
  one.effect = std::max(one.effect.value_or(0), effect);
  const bool is_of_backward = calls_.is_in_backward(record) || is_backward(calls_.name(record));
  if (effect >= 1 && is_of_backward && calls_.model().in_backward) one.is_update = false;
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

// In the order of the records, as what goes into one comes from those before: a file may have a longer chain
// of them than this thread has a stack.
std::vector<Source> Unpaired::sources(std::uint32_t record, const Earlier& earlier) const {
  while (made_of_.size() <= record) {
    const auto at = static_cast<std::uint32_t>(made_of_.size());
    Source& all = made_of_.emplace_back();
    add_sources(at, earlier, all);
    const std::string_view name = calls_.theirs().name(at);
    if (!is_backward(name)) continue;
    // It computes with what the forward call was given.
    const auto forward = calls_.reference().find(trace::RecordName(name).with(trace::Direction::kForward));
    if (forward && *forward < at) add_sources(static_cast<std::uint32_t>(*forward), earlier, all);
  }
  return {made_of_[record]};
}

// As the step begins with them.
const compare::KnownValues& Unpaired::parameters() const {
  if (parameters_) return *parameters_;
  parameters_.emplace();
  const DumpPair& pair = calls_.pair();
  if (!pair.target_state || !pair.reference_state) return *parameters_;
  for (const EntryPair& one :
       common(pair.target_state->root["parameters"], pair.reference_state->root["parameters"])) {
    if (one.facts) parameters_->add(*one.facts, one.apart());
  }
  return *parameters_;
}

void Unpaired::add_sources(std::uint32_t record, const Earlier& earlier, Source& all) const {
  const Run& run = calls_.theirs();
  const compare::StepWalk* const before = earlier.step;
  const double at_start = before != nullptr ? before->noise : 0;
  const auto add = [&](const Distance& other, double hidden = 0) {
    all.unseen = std::max(all.unseen, hidden);
    all.distance.high = std::max(all.distance.high, other.high);
    all.distance.expected = std::max(all.distance.expected, other.expected);
    all.distance.value = std::max(all.distance.value, other.value);
    all.distance.bias = std::max(all.distance.bias, other.bias);
    all.distance.equal &= other.equal;
  };
  const Record& one = run.trace.records()[record];
  for (ItemIndex i = one.first_item; i < one.first_item + one.item_count; ++i) {
    const Item& item = run.trace.all_items()[i];
    if (item.kind != Item::Kind::kTensor || !is_input(item.part)) continue;
    const ItemIndex source = run.flow().source(i);
    if (source == kNoItem) {  // a parameter, what an optimizer left behind, or an unseen call made
      const metrics::TensorFacts facts = trace::facts_of(run.trace, item);
      const Distance* known = before != nullptr ? before->updated.find(facts) : nullptr;
      if (known == nullptr) known = parameters().find(facts);
      const bool is_made = !parameters().empty() && item.requires_grad.value_or(false);
      const double unseen = is_made || is_backward(run.name(record)) ? earlier.reached : 0;
      add(known != nullptr ? *known : of_error(std::max(at_start, unseen)));
    } else if (run.row_of(source) != kNoRow) {
      all.row = run.row_of(source);
      const auto hidden = earlier.unseen.find(all.row);
      add(calls_.distance(calls_.row(all.row)), hidden == earlier.unseen.end() ? 0 : hidden->second);
    } else if (run.flow().record(source) < record) {
      const Source& made = made_of_[run.flow().record(source)];
      add(made.distance, made.unseen);
    }
  }
}

}  // namespace msprobe::verdict

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/unpaired.h"

#include <algorithm>
#include <cmath>

namespace msprobe::verdict {
namespace {

using operators::Gain;

// A bound against hostile files: each may be a finding.
constexpr std::size_t kMostGroups = 20000;

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
    const bool is_gradient = trace::holds_gradients(calls.reference_name(i));
    if (calls.of_reference(i) == trace::kNoMatch) {
      if (!is_gradient && would_have(calls.target(), calls.reference(), calls.reference_name(i)))
        missing.emplace_back(before, i);
    } else if (!is_gradient) {
      before = calls.of_reference(i) + 1;
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
Unpaired::Outside Unpaired::outside(std::string_view call, bool is_missing) const {
  const DumpPair& pair = calls_.pair();
  const auto& construct = is_missing ? pair.reference_construct : pair.target_construct;
  const Trace& trace = is_missing ? pair.reference : pair.target;
  Outside place{call, {}};
  if (!construct) return place;
  for (int depth = 0; depth < kDeepest; ++depth) {
    const std::string_view parent = construct->parent(place.outermost);
    const auto found = parent.empty() ? std::nullopt : trace.find(parent);
    const auto record = static_cast<std::uint32_t>(found.value_or(0));
    const bool has_it =
        found && (is_missing ? calls_.of_reference(record) != trace::kNoMatch : calls_.is_paired(record));
    if (!found || has_it) {
      place.around = parent;
      return place;
    }
    place.outermost = parent;
  }
  return place;
}

void Unpaired::add(std::uint32_t record, std::uint32_t next, bool is_missing) {
  const Trace& trace = is_missing ? calls_.reference() : calls_.target();
  const std::string_view call = trace.name(trace.records()[record]);
  const Outside place = outside(call, is_missing);
  std::optional<std::uint32_t>& last = is_missing ? last_missing_ : last_extra_;
  const bool goes_on = last && groups_[*last].first + groups_[*last].count == record &&
                       groups_[*last].around == place.around &&
                       is_backward(groups_[*last].name) == is_backward(call);
  if (!goes_on) {
    if (groups_.size() == kMostGroups) return;
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
  ++group.count;
  group.computing += functions_in(trace, record);
  (is_missing ? of_reference_ : of_target_)[record] = *last;
}

// 1 where numbers of floating point come out that are not just moved, 2 where they are sums of products: with
// those, terms may cancel out.
std::uint32_t Unpaired::functions_in(const Trace& trace, std::uint32_t record) const {
  const Record& one = trace.records()[record];
  const operators::Row by = calls_.operator_of(trace.name(one));
  if (is_module(trace.name(one)) || by.only_moves()) return 0;
  const auto items = trace.items(one);
  const bool computes = std::any_of(items.begin(), items.end(), [&](const Item& item) {
    return !is_input(item.part) && metrics::unit_roundoff(trace::dtype_of(trace.text(item.dtype))) > 0;
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
  const auto add_followers = [&](const Flow& flow, ItemIndex item, const Groups& groups) {
    while ((item = flow.follower(item)) != kNoItem) {
      const auto group = Unpaired::found(groups, flow.record(item));
      if (group && !is_backward(groups_[*group].name)) found.push_back(*group);
    }
  };
  const auto forward = calls_.forward_of(backward);
  for (const ItemPair& row : forward ? calls_.rows_of(*forward) : std::span<const ItemPair>()) {
    if (!calls_.is_result(row)) continue;
    add_followers(calls_.reference_flow(), row.reference.index, of_reference_);
    add_followers(calls_.target_flow(), row.target, of_target_);
  }
  return found;
}

// In the order of the records, as what goes into one comes from those before: a file may have a longer chain
// of them than this thread has a stack.
std::vector<Source> Unpaired::sources(std::uint32_t record, const compare::StepWalk* before) const {
  const Trace& reference = calls_.reference();
  const auto larger = [](Source& one, const Distance& other) {
    one.distance.high = std::max(one.distance.high, other.high);
    one.distance.expected = std::max(one.distance.expected, other.expected);
    one.distance.value = std::max(one.distance.value, other.value);
    one.distance.bias = std::max(one.distance.bias, other.bias);
    one.distance.equal &= other.equal;
  };
  while (made_of_.size() <= record) {
    const auto at = static_cast<std::uint32_t>(made_of_.size());
    Source& all = made_of_.emplace_back();
    const Record& one = reference.records()[at];
    for (ItemIndex i = one.first_item; i < one.first_item + one.item_count; ++i) {
      const Item& item = reference.all_items()[i];
      if (item.kind != Item::Kind::kTensor || !is_input(item.part)) continue;
      const ItemIndex source = calls_.reference_flow().source(i);
      if (source == kNoItem) {  // what an optimizer left behind
        if (before == nullptr) continue;
        const Distance* const left = before->updated.find(trace::facts_of(reference, item));
        const double error = left != nullptr ? left->high : before->noise;
        larger(all, of_error(error));
        continue;
      }
      const std::uint32_t row = calls_.row_of_reference(source);
      const std::uint32_t maker = calls_.reference_flow().record(source);
      if (row != kNoRow) {
        larger(all, calls_.distance(calls_.row(row)));
        all.row = row;
      } else if (maker < at) {
        larger(all, made_of_[maker].distance);
      }
    }
  }
  return {made_of_[record]};
}

}  // namespace msprobe::verdict

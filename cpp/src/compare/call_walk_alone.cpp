// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "compare/call_walker.h"

namespace msprobe::compare {
namespace {

constexpr double kOneCall = 2;

}  // namespace

void CallWalker::collect_missing() {
  const auto& of_reference = records_.of_reference;
  std::uint32_t before = 0;
  for (std::uint32_t i = 0; i < of_reference.size(); ++i) {
    if (!of_reference[i]) {
      missing_.emplace_back(before, i);
    } else if (!trace::holds_gradients(reference_name(i))) {
      before = of_reference[i].index + 1;
    }
  }
  std::stable_sort(missing_.begin(), missing_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
}

void CallWalker::collect_gradients() {
  double differences = 0, squares = 0;
  for (const ItemPair& row : pair_.matches.pairs) {
    if (!row.reference || !trace::holds_gradients(name(row.target_record))) continue;
    const Distance& apart = distance_of(row);
    const metrics::TensorFacts facts = trace::facts_of(pair_.reference, *pair_.reference_item(row));
    gradients_of_parameters_.add(facts, apart);
    if (!std::isfinite(apart.high)) continue;
    largest_gradient_ = std::max(largest_gradient_, apart.high);
    const double square = facts.typical() * facts.typical() * facts.count;
    differences += apart.high * apart.high * square;
    squares += square;
  }
  if (squares > 0) whole_gradient_ = std::sqrt(differences / squares);
}

void CallWalker::set_strangers_aside() {
  std::unordered_set<std::string_view> other_calls;  // modules with calls of one run only
  const auto collect = [&](const Trace& trace, const std::vector<trace::Match>& matches,
                           const std::optional<trace::Construct>& construct) {
    for (std::uint32_t i = 0; construct && i < matches.size(); ++i) {
      if (matches[i]) continue;
      const std::string_view around = construct->parent(trace.name(trace.records()[i]));
      if (!around.empty()) other_calls.insert(around);
    }
  };
  collect(pair_.target, records_.of_target, pair_.target_construct);
  collect(pair_.reference, records_.of_reference, pair_.reference_construct);
  for (std::uint32_t i = 0; i < records_.of_target.size(); ++i) {
    if (records_.of_target[i] && is_stranger(i, other_calls)) set_aside(i);
  }
  for (std::uint32_t i = 0; i < records_.of_target.size(); ++i) {  // with its gradients
    if (!records_.of_target[i] || !is_backward(name(i))) continue;
    const auto forward = forward_of(i);
    if (forward && set_aside_[*forward]) set_aside(i);
  }
}

bool CallWalker::is_stranger(std::uint32_t record, const std::unordered_set<std::string_view>& other_calls) {
  if (is_module(name(record)) || trace::holds_gradients(name(record))) return false;
  const std::uint32_t other = records_.of_target[record].index;
  const auto has_other_calls = [&](const std::optional<trace::Construct>& construct, std::string_view call) {
    return construct && other_calls.contains(construct->parent(call));
  };
  const bool is_repeated = pair_.target.records()[record].is_recompute;
  const bool is_moved = records_.of_target[record].how == trace::MatchKind::kMoved;
  if (is_moved && is_repeated != pair_.reference.records()[other].is_recompute) return true;
  if (!is_moved && !has_other_calls(pair_.target_construct, name(record)) &&
      !has_other_calls(pair_.reference_construct, reference_name(other))) {
    return false;
  }
  const auto rows = rows_.of_record(record);
  return reference_only_tensors(record) > 0 ||
         std::any_of(rows.begin(), rows.end(), [&](const ItemPair& row) {
           return pair_.target_item(row).kind == Item::Kind::kTensor && !row.reference &&
                  row.reason == trace::NoMatchReason::kShape;
         });
}

void CallWalker::set_aside(std::uint32_t record) {
  set_aside_[record] = true;
  records_.of_reference[records_.of_target[record].index] = {};
  records_.of_target[record] = {};
}

std::uint32_t CallWalker::row_of_reference(ItemIndex item) const {
  const std::uint32_t row = rows_.of_reference(item);
  return row == kNoRow || set_aside_[rows_[row].target_record] ? kNoRow : row;
}

std::uint32_t CallWalker::row_of_target(ItemIndex item) const {
  const std::uint32_t row = rows_.of_target(item);
  return row == kNoRow || set_aside_[rows_[row].target_record] ? kNoRow : row;
}

void CallWalker::collect_reference_only() {
  for (const trace::ReferenceItem& one : pair_.matches.reference_only) {
    if (records_.of_reference[one.record]) reference_only_[one.record].push_back(one.item);
  }
}

void CallWalker::add_missing_before(std::uint32_t record) {
  for (; next_missing_ < missing_.size() && missing_[next_missing_].first <= record; ++next_missing_) {
    const auto [before, index] = missing_[next_missing_];
    if (!trace::holds_gradients(reference_name(index))) add_alone(index, before - 0.5, true);
  }
}

CallWalker::Place CallWalker::place_of(std::string_view call, bool is_missing) const {
  const auto& construct = is_missing ? pair_.reference_construct : pair_.target_construct;
  const auto& matches = is_missing ? records_.of_reference : records_.of_target;
  const Trace& trace = is_missing ? pair_.reference : pair_.target;
  Place place{call, {}};
  if (!construct) return place;
  for (int depth = 0; depth < kDeepest; ++depth) {
    const std::string_view parent = construct->parent(place.outermost);
    const auto found = parent.empty() ? std::nullopt : trace.find(parent);
    if (!found || matches[*found]) {
      place.around = parent;
      return place;
    }
    place.outermost = parent;
  }
  return place;
}

void CallWalker::add_alone(std::uint32_t record, double order, bool is_missing) {
  const std::string_view call = is_missing ? reference_name(record) : name(record);
  const Place place = place_of(call, is_missing);
  const std::size_t known = is_missing ? last_missing_ : last_extra_;
  const bool goes_on = known != kNoAlone && alone_[known].is_missing == is_missing &&
                       alone_[known].first + alone_[known].count == record &&
                       alone_[known].around == place.around &&
                       is_backward(alone_[known].name) == is_backward(call);
  if (!goes_on && alone_.size() < kMostFindings) {
    Alone alone;
    alone.name = place.outermost;
    alone.first = record;
    alone.order = order;
    alone.is_missing = is_missing;
    alone.around = place.around;
    alone.exact_before = !differs_;
    alone.is_update =
        place.around == "optimizer" || is_update(operator_name(call)) ||
        (is_after_backward_ && place.around.empty() && !is_module(place.outermost) && !is_backward(call));
    (is_missing ? last_missing_ : last_extra_) = alone_.size();
    alone_.push_back(alone);
  }
  const std::size_t now = is_missing ? last_missing_ : last_extra_;
  if (now == kNoAlone) return;
  ++alone_[now].count;
  alone_[now].computing += functions_in(is_missing ? pair_.reference : pair_.target, record);
  (is_missing ? alone_of_reference_ : alone_of_target_)[record] = now;
}

void CallWalker::tell(Alone& alone) {
  if (alone.is_update) {
    if (alone.effect < 1) alone.effect = kUnknown;  // what is changed in place leaves no result
  } else {
    alone.effect = effect_of(static_cast<std::size_t>(&alone - alone_.data()));
  }
  auto& findings = result_.walk.findings;
  if (findings.size() >= kMostFindings) return;
  Finding& finding = findings.emplace_back();
  const std::string side = alone.is_missing ? "the reference" : "the target";
  finding.kind = is_collective(alone.name) ? FindingKind::kReduction
                 : alone.is_missing        ? FindingKind::kMissingCall
                                           : FindingKind::kExtraCall;
  finding.phase = alone.is_update               ? Phase::kUpdate
                  : alone.around == "clip_grad" ? Phase::kClipping
                                                : Phase::kCalls;
  finding.order = alone.order;
  finding.name = alone.name;
  finding.module = module_path(alone.around);
  finding.operator_name = operator_name(alone.name);
  finding.record = alone.name;
  finding.is_of_reference = alone.is_missing;
  finding.reason = "only " + side + " calls " + alone.name;
  if (alone.count > 1 && !is_module(alone.name)) {
    const std::uint32_t more = alone.count - 1;
    finding.reason +=
        more == 1 ? " and the call that follows" : " and the " + std::to_string(more) + " calls that follow";
  }
  finding.distance = Distance::unmeasurable();
  finding.effect = alone.effect;
  finding.exact_before = alone.exact_before;
}

std::uint32_t CallWalker::functions_in(const Trace& trace, std::uint32_t record) const {
  const Record& one = trace.records()[record];
  const operators::Row traits = traits_of_record(trace.name(one));
  if (is_module(trace.name(one)) || traits.only_moves()) return 0;
  const auto items = trace.items(one);
  const bool computes = std::any_of(items.begin(), items.end(), [&](const Item& item) {
    return !is_input(item.part) && metrics::unit_roundoff(trace::dtype_of(trace.text(item.dtype))) > 0;
  });
  const bool sums = traits.gain == operators::Gain::kProduct || traits.gain == operators::Gain::kAttention ||
                    traits.gain == operators::Gain::kRecurrent;
  return computes ? (sums ? 2 : 1) : 0;
}

double CallWalker::effect_of(std::size_t index) {
  struct Looking {
    std::size_t index;
    std::vector<std::size_t> consumers;
    std::size_t next = 0;
    double effect = kUnknown;
  };
  std::vector<Looking> chain;
  const auto begins = [&](std::size_t one) {
    Alone& alone = alone_[one];
    if (!std::isnan(alone.effect) || alone.is_looked_at) return false;
    alone.is_looked_at = true;
    chain.push_back({one, consumers(alone)});
    return true;
  };
  begins(index);
  while (!chain.empty()) {
    Looking& last = chain.back();
    if (last.next < last.consumers.size()) {
      const std::size_t consumer = last.consumers[last.next];
      if (begins(consumer)) continue;
      last.effect = std::fmax(last.effect, alone_[consumer].effect);
      ++last.next;
      continue;
    }
    Alone& alone = alone_[last.index];
    alone.effect =
        std::isnan(last.effect) ? effect_around(alone.around, alone.is_missing, alone.order) : last.effect;
    chain.pop_back();
  }
  return alone_[index].effect;
}

std::vector<std::size_t> CallWalker::consumers(const Alone& alone) {
  const Trace& trace = alone.is_missing ? pair_.reference : pair_.target;
  const Flow& flow = alone.is_missing ? reference_flow() : target_flow();
  const auto& groups = alone.is_missing ? alone_of_reference_ : alone_of_target_;
  std::vector<std::size_t> found;
  for (std::uint32_t i = alone.first; i < alone.first + alone.count; ++i) {
    const Record& one = trace.records()[i];
    for (ItemIndex item = one.first_item; item < one.first_item + one.item_count; ++item) {
      if (is_input(trace.all_items()[item].part)) continue;
      for (ItemIndex next = flow.follower(item); next != kNoItem; next = flow.follower(next)) {
        const auto group = groups.find(flow.record(next));
        if (group == groups.end() || &alone_[group->second] == &alone) continue;
        if (is_input(trace.all_items()[next].part)) found.push_back(group->second);
      }
    }
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

// ---- Tensors that come in

Allowance CallWalker::through(const Alone& alone, const Resolved& led, double unit, double count) {
  if (alone.computing > 1) return composite(led.high, led.value, unit);
  const double own = own_rounding(unit);
  const double bias = kRoundingModel.bias * unit + own / std::sqrt(count);
  return {kOneCall * led.high + own, kOneCall * led.bias + bias, kOneCall * led.value + own};
}

CallWalker::Resolved CallWalker::known(std::uint32_t row) const {
  const Distance& apart = distances_[row];
  const double count = trace::element_count(pair_.reference.text(pair_.reference_item(rows_[row])->shape));
  return {apart.high, apart.value, apart.bias + apart.high / std::sqrt(std::max(count, 1.0))};
}

CallWalker::Resolved CallWalker::resolved(std::uint32_t record) {
  while (resolved_.size() <= record) {
    resolved_.push_back(resolve(static_cast<std::uint32_t>(resolved_.size())));
  }
  return resolved_[record];
}

CallWalker::Resolved CallWalker::resolve(std::uint32_t record) {
  Resolved led;
  const Record& one = pair_.reference.records()[record];
  for (std::uint32_t i = one.first_item; i < one.first_item + one.item_count; ++i) {
    const Item& item = pair_.reference.all_items()[i];
    if (item.kind != Item::Kind::kTensor || !is_input(item.part)) continue;
    const ItemIndex source = reference_flow().source(i);
    if (source == kNoItem) {  // what an optimizer left behind
      if (before_ == nullptr) continue;
      const auto by_optimizer = left_by_optimizer(trace::facts_of(pair_.reference, item));
      const double left = by_optimizer ? by_optimizer->magnitude : before_->noise;
      led = {std::max(led.high, left), std::max(led.value, left), std::max(led.bias, left)};
      continue;
    }
    const std::uint32_t row = row_of_reference(source);
    const std::uint32_t maker = reference_flow().record(source);
    if (row == kNoRow && maker >= record) continue;
    const Resolved there = row != kNoRow ? known(row) : resolved_[maker];
    led.high = std::max(led.high, there.high);
    led.bias = std::max(led.bias, there.bias);
    led.value = std::max(led.value, there.value);
  }
  return led;
}

bool CallWalker::credit_alone(const Explained& explained, ItemIndex ours, double strength) {
  std::size_t extra = kNoAlone;
  if (ours != kNoItem && row_of_target(ours) == kNoRow) {
    const auto found = alone_of_target_.find(target_flow().record(ours));
    if (found != alone_of_target_.end()) extra = found->second;
  }
  const std::size_t missing = explained.alone;
  const auto is_one_function = [&](std::size_t alone) {
    return alone != kNoAlone && alone_[alone].computing == 1 && !is_backward(alone_[alone].name);
  };
  if (is_one_function(missing) && is_one_function(extra))
    strength *= kRoundingModel.visible / kRoundingModel.visible_of_one;
  if (extra != kNoAlone) credit(extra, strength);
  if (missing != kNoAlone) credit(missing, strength);
  return extra != kNoAlone || missing != kNoAlone;
}

void CallWalker::credit_module(const ItemPair& row, const Distance& apart) {
  const ItemIndex source = reference_flow().source(row.reference.index);
  if (source == kNoItem || !alone_of_reference_.contains(reference_flow().record(source))) return;
  const Explained explained = explain_input(row, false);
  credit_alone(explained, target_flow().source(row.target), visible(apart, explained.allowed));
}

void CallWalker::credit(std::size_t alone, double strength) {
  double& effect = alone_[alone].effect;
  effect = std::isnan(effect) ? strength : std::max(effect, strength);
}

}  // namespace msprobe::compare

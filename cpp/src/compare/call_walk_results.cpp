// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "compare/call_walker.h"
#include "msprobe/step_walk.h"
#include "trace/item/uninitialised.h"
#include "trace/match/align.h"

namespace msprobe::compare {

void CallWalker::visit_results(std::uint32_t record, std::span<const ItemPair> rows,
                               const std::vector<Influence>& influences, double floor, bool knows_inputs,
                               std::size_t arguments, Seen& seen) {
  const std::string_view call = name(record);
  const bool backward = is_backward(call);
  const operators::Row traits = traits_of_record(call);
  const ItemPair* worst = nullptr;
  Distance worst_distance;
  Allowance worst_allowed;
  bool is_excluded = false;
  for (const ItemPair& row : rows) {
    const Item& item = pair_.target_item(row);
    if (is_input(item.part)) continue;
    if (!row.reference) {
      if (item.kind == Item::Kind::kTensor && row.reason != trace::NoMatchReason::kDtype &&
          !is_other_choice(row)) {
        seen.effect = kInfinity;
      }
      visit_lone_result(record, row, item, influences, knows_inputs, arguments, traits);
      continue;
    }
    if (item.kind != Item::Kind::kTensor || trace::is_uninitialised(call)) continue;
    seen.has_result = true;
    const Distance apart = distance_of(row, floor);
    seen.high = std::max(seen.high, apart.high);
    seen.out_is_equal &= apart.equal;
    if (is_module(call) && !backward) credit_module(row, apart);
    if (apart.equal) continue;
    Result result = result_of(row, backward);
    if (traits.gain == operators::Gain::kUpdate) result.step = step_of(row);
    Allowance allowed = allowed_of(record, traits, result, influences, knows_inputs);
    has_flips_ |= result.unit == 0;
    if (const double hidden = moved_element(traits, result, influences); hidden > 0)
      hide(*pair_.reference_item(row), hidden);
    seen.noise = std::max(seen.noise, apart.high / allowed.cancelled);
    double strength = beyond(apart, allowed);
    note_closest(strength, row);
    const bool excluded = !differs_ && seen.in_is_equal && knows_inputs && apart.value >= result.unit &&
                          was_equal_before(record);
    if (excluded) strength = std::max({strength, 1.0, apart.value / std::max(result.unit, 0x1p-53)});
    seen.effect = std::max(seen.effect, is_module(call)
                                            ? visible(apart, composite(seen.in_high, seen.in_value,
                                                                       std::max(result.unit, coarsest_unit_)))
                                            : visible(apart, allowed));
    if (worst == nullptr || strength > seen.strength) {
      worst = &row;
      worst_distance = apart;
      worst_allowed = allowed;
      is_excluded = excluded;
      seen.strength = std::max(seen.strength, strength);
    }
  }
  if (seen.has_result && !seen.out_is_equal) note_strength(record, std::max(seen.strength, seen.effect));
  if (worst == nullptr || seen.strength < 1 || arguments > 0) return;
  tell_result(record, *worst, worst_distance, worst_allowed, is_excluded, traits, seen);
}

void CallWalker::hide(const Item& reference, double error) {
  if (const std::uint64_t key = value_key(pair_.reference, reference); key != 0) hidden_[key] = error;
}

double CallWalker::step_of(const ItemPair& row) const {
  const Item& after = *pair_.reference_item(row);
  for (const Item& item :
       pair_.reference.items(pair_.reference.records()[records_.of_target[row.target_record].index])) {
    if (!is_input(item.part) || item.kind != Item::Kind::kTensor) continue;
    if (pair_.reference.text(item.shape) != pair_.reference.text(after.shape)) break;
    const double step = trace::distance(pair_.reference, after, pair_.reference, &item, nullptr).expected;
    return step > 0 ? step : kInfinity;
  }
  return kInfinity;  // lists of tensors, a step that cannot be seen
}

operators::Row CallWalker::traits_of_record(std::string_view call) const {
  if (is_module(call)) return operators::find(module_class(call));
  return operators::find(operator_name(call));
}

Allowance CallWalker::allowed_of(std::uint32_t record, const operators::Row& traits, const Result& result,
                                 std::span<const Influence> influences, bool knows_inputs) {
  if (!knows_inputs) return {kInfinity, kInfinity};
  const bool is_composite = is_module(name(record)) || traits.gain == operators::Gain::kRecurrent;
  Result computed = result;
  // Under autocast, what is computed inside may be of a coarser dtype than what comes out.
  if (is_composite && result.unit > 0) computed.unit = std::max(result.unit, coarsest_unit_);
  Allowance allowed = allowance(traits, computed, influences, noise_);
  // A module is as far off as what is computed inside of it.
  const auto found = inside_.find(name(record));
  if (found == inside_.end()) return allowed;
  const Allowance by_parts =
      composite(found->second.high, found->second.high, std::max(found->second.unit, result.unit));
  return {std::max(allowed.magnitude, by_parts.magnitude), std::max(allowed.bias, by_parts.bias),
          std::max(allowed.expected, by_parts.expected), allowed.element, allowed.cancelled};
}

void CallWalker::tell_result(std::uint32_t record, const ItemPair& row, const Distance& apart,
                             const Allowance& allowed, bool is_excluded, const operators::Row& traits,
                             const Seen& seen) {
  Finding& finding = add(FindingKind::kOperator, record);
  finding.distance = apart;
  finding.explained = allowed.magnitude;
  finding.strength = seen.strength;
  finding.exact_before = seen.in_is_equal;
  finding.other_kernel_excluded = is_excluded;
  const std::string item = item_name(row);
  finding.reason = seen.in_is_equal ? "what goes into " + finding.name + " agrees, " + item + " does not"
                                    : item + " differs by more than what goes in explains";
  const std::string_view ours = pair_.target.text(pair_.target_item(row).dtype);
  const std::string_view theirs = pair_.reference.text(pair_.reference_item(row)->dtype);
  if (ours != theirs) {
    finding.reason += ": it is " + std::string(ours) + ", in the reference " + std::string(theirs);
  }
  if (is_collective(finding.name)) finding.kind = FindingKind::kReduction;
  if (traits.gain == operators::Gain::kDraws) {
    finding.kind = FindingKind::kRandomness;
    finding.reason += " (a random operator)";
  }
}

void CallWalker::visit_lone_result(std::uint32_t record, const ItemPair& row, const Item& item,
                                   std::span<const Influence> influences, bool knows_inputs,
                                   std::size_t arguments, const operators::Row& traits) {
  if (arguments > 0 || !knows_inputs || item.kind == Item::Kind::kNull) return;
  // How many elements there are may depend on those of a mask or an index, or on noise.
  const bool is_chosen = std::any_of(influences.begin(), influences.end(),
                                     [](const Influence& one) { return one.distance.high > 0; });
  if (is_chosen && !only_sums(traits)) return;
  Finding& finding = add_argument(record, item_name(row));
  finding.kind = FindingKind::kOperator;
  finding.target_value = show(pair_.target, &item);
  finding.reference_value = reason(row.reason);
  finding.reason =
      finding.name + " is " + finding.target_value + ", in the reference it has " + finding.reference_value;
  finding.name = name(record);
  finding.effect = kInfinity;
}

bool CallWalker::only_sums(const operators::Row& traits) {
  return traits.gain == operators::Gain::kProduct || traits.gain == operators::Gain::kScaleFree ||
         traits.gain == operators::Gain::kElementwise || traits.gain == operators::Gain::kPower;
}

bool CallWalker::was_equal_before(std::uint32_t record) {
  for (const std::uint32_t equal : equal_records_) equal_calls_.insert(call_key(equal));
  equal_records_.clear();
  return equal_calls_.contains(call_key(record));
}

std::uint64_t CallWalker::call_key(std::uint32_t record) const {
  std::string what;
  trace::append_without_count(what, name(record));
  const trace::Token token = trace::token_of(what, pair_.target, pair_.target.records()[record]);
  return token.what ^ (token.detail * 3);
}

void CallWalker::note_strength(std::uint32_t record, double strength) {
  const std::string_view around = is_module(name(record)) ? name(record) : parent_of(record);
  double& known = result_.strength_of_modules[module_path(around)];
  known = std::max(known, strength);
}

void CallWalker::note_inside(std::uint32_t record, std::span<const ItemPair> rows, const Seen& seen) {
  const std::string_view around = parent_of(record);
  if (around.empty()) return;
  Inside own;
  if (const auto found = inside_.find(name(record)); found != inside_.end()) own = found->second;
  own.high = std::max(own.high, std::isfinite(seen.high) ? seen.high : 0);
  for (const ItemPair& row : rows) {
    if (!row.reference || is_input(pair_.target_item(row).part)) continue;
    own.unit = std::max(own.unit, unit_of(*pair_.reference_item(row)));
  }
  Inside& outer = inside_[around];
  outer.high = std::max(outer.high, own.high);
  outer.unit = std::max(outer.unit, own.unit);
}

void CallWalker::keep_updated(std::span<const ItemPair> rows) {
  for (const ItemPair& row : rows) {
    const Item& item = pair_.target_item(row);
    if (!row.reference || is_input(item.part) || item.kind != Item::Kind::kTensor) continue;
    result_.walk.updated.add(trace::facts_of(pair_.reference, *pair_.reference_item(row)), distance_of(row));
  }
}

void CallWalker::keep_parameters() {
  for (const ItemPair& row : pair_.matches.pairs) {
    if (!row.reference || pair_.target_item(row).part != Part::kParameters) continue;
    const std::string key =
        parameter_key(name(row.target_record), pair_.target.text(pair_.target_item(row).path));
    metrics::TensorFacts facts = trace::facts_of(pair_.reference, *pair_.reference_item(row));
    facts.checksum = {};  // of a file that may be closed by then
    result_.walk.parameters.insert_or_assign(key, facts);
    result_.walk.left_behind[key] = distance_of(row).expected;
  }
}

double CallWalker::coarsest_unit() const {
  double unit = 0;
  for (const ItemPair& row : pair_.matches.pairs) {
    if (row.reference && !is_input(pair_.target_item(row).part))
      unit = std::max(unit, unit_of(*pair_.reference_item(row)));
  }
  return unit;
}

// ---- Gradients of parameters

double CallWalker::negligible_gradient() const {
  std::vector<double> typical;
  for (const Record& record : pair_.reference.records()) {
    if (!trace::holds_gradients(pair_.reference.name(record))) continue;
    for (const Item& item : pair_.reference.items(record)) {
      if (item.kind != Item::Kind::kTensor) continue;
      if (const double element = trace::facts_of(pair_.reference, item).typical(); element > 0)
        typical.push_back(element);
    }
  }
  if (typical.empty()) return 0;
  const auto middle = typical.begin() + static_cast<std::ptrdiff_t>(typical.size() / 2);
  std::nth_element(typical.begin(), middle, typical.end());
  return kRoundingModel.negligible_gradient * *middle;
}

void CallWalker::visit_gradients(std::uint32_t record) {
  if (!records_.of_target[record]) return;
  Allowance of_module{-1, 0};
  for (const ItemPair& row : rows_.of_record(record)) {
    if (!row.reference) continue;
    const Distance apart = distance_of(row, negligible_gradient_);
    result_.gradients_of_parameters.add(trace::facts_of(pair_.reference, *pair_.reference_item(row)), apart);
    if (apart.high > 0 && std::isfinite(apart.high)) note_gradient(row, apart);
    if (apart.equal) continue;
    if (of_module.magnitude < 0) of_module = allowed_of_module(name(record));
    Allowance allowed = of_module;
    const double unit = unit_of(*pair_.reference_item(row));
    allowed.magnitude += kRoundingModel.composite * own_rounding(unit);
    allowed.bias += kRoundingModel.composite * unit;
    // The gradient is the very result of a backward call.
    if (const ItemIndex source = backward_result(row.reference.index); source != kNoItem) {
      const std::uint32_t known = row_of_reference(source);
      if (known != kNoRow) {
        const Distance there = distance_of(rows_[known], negligible_gradient_);
        const double count =
            std::max(trace::element_count(pair_.reference.text(pair_.reference_item(row)->shape)), 1.0);
        allowed = {there.high, there.bias + there.high / std::sqrt(count)};
      }
    }
    const double strength = beyond(apart, allowed);
    note_closest(strength, row);
    if (strength < 1) continue;
    Finding& finding = add(FindingKind::kGradient, record);
    finding.phase = Phase::kGradients;
    finding.name = item_name(row);
    finding.module = module_path(name(record));
    finding.distance = apart;
    finding.explained = allowed.magnitude;
    finding.strength = strength;
    finding.exact_before = of_module.magnitude == 0;
    finding.reason = finding.name + " differs, and what it is made of does not explain it";
  }
}

ItemIndex CallWalker::backward_result(ItemIndex gradient) {
  for (ItemIndex item = reference_flow().follower(gradient); item != kNoItem;
       item = reference_flow().follower(item)) {
    const bool is_result = !is_input(pair_.reference.all_items()[item].part);
    if (is_result && is_backward(reference_name(reference_flow().record(item)))) return item;
  }
  return kNoItem;
}

void CallWalker::note_closest(double strength, const ItemPair& row) {
  Largest& closest = result_.walk.closest;
  if (strength < 1 && strength > closest.value) closest = {strength, item_name(row)};
}

void CallWalker::note_gradient(const ItemPair& row, const Distance& apart) {
  result_.gradients = std::max(result_.gradients, apart.high);
  if (apart.value > result_.walk.largest_gradient.value) {
    result_.walk.largest_gradient = {apart.value, item_name(row)};
  }
}

Allowance CallWalker::allowed_of_module(std::string_view gradients) const {
  const std::vector<std::uint32_t> calls = backward_calls(pair_.target, gradients);
  double high = calls.empty() ? noise_ : 0;
  for (const std::uint32_t record : calls) {
    high = std::max({high, seen_[record].in_high, seen_[record].high});
    if (const auto inside = inside_.find(name(record)); inside != inside_.end())
      high = std::max(high, inside->second.high);
    if (const auto forward = forward_record(record)) {
      high = std::max({high, seen_[*forward].in_high, seen_[*forward].high});
    }
  }
  return {kRoundingModel.composite * high, kRoundingModel.composite * high};
}

}  // namespace msprobe::compare

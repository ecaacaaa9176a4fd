// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>

#include "compare/call_walker.h"

namespace msprobe::compare {
namespace {

// Arguments that are off by less than this are the same number, computed otherwise.
constexpr double kSameNumber = 8 * 0x1p-24;

}  // namespace

std::size_t CallWalker::visit_arguments(std::uint32_t record, std::span<const ItemPair> rows, Zone zone) {
  std::size_t found = 0;
  if (zone != Zone::kModel && same_tensors_in_other_order(record)) return 0;
  for (const ItemPair& row : rows) {
    const Item& item = pair_.target_item(row);
    if (!is_input(item.part) || is_overwritten(record, item)) continue;
    const Item* const other = pair_.reference_item(row);
    if (other != nullptr && item.requires_grad && other->requires_grad &&
        *item.requires_grad != *other->requires_grad && !is_backward(name(record))) {
      Finding& finding = add_argument(record, item_name(row) + ".requires_grad");
      finding.target_value = *item.requires_grad ? "True" : "False";
      finding.reference_value = *other->requires_grad ? "True" : "False";
      tell_values(finding);
      finding.effect = kInfinity;
    }
    const Distance& apart = distance_of(row);
    if (other != nullptr && apart.equal && apart.high == 0) continue;
    if (item.kind != Item::Kind::kTensor || other == nullptr) {
      if (item.kind == Item::Kind::kNull && other == nullptr) continue;
      if (apart.high < kSameNumber) continue;
      found += add_value(record, item_name(row), show(pair_.target, &item),
                         other != nullptr ? show(pair_.reference, other) : std::string(reason(row.reason)),
                         item.kind == Item::Kind::kTensor, other != nullptr ? apart.value : kInfinity);
      if (item.kind == Item::Kind::kTensor && other == nullptr && is_other_choice(row)) {
        chosen_.push_back(waiting_.back());
        waiting_.pop_back();
        continue;
      }
      // A rate or a coefficient; what it makes of elements next to nothing is no measure.
      if (zone == Zone::kOptimizer && std::isfinite(apart.low) &&
          apart.low > composite(noise_, noise_, 0x1p-24).magnitude) {
        result_.walk.findings.back().effect = kInfinity;
        waiting_.pop_back();
      }
    } else if (!apart.equal) {
      visit_input(record, row, apart);
    }
  }
  const auto only = reference_only_.find(records_.of_target[record].index);
  if (only == reference_only_.end()) return found;
  for (const std::uint32_t index : only->second) {
    const Item& item = pair_.reference.all_items()[index];
    if (!is_input(item.part) || item.kind == Item::Kind::kNull || item.kind == Item::Kind::kTensor) continue;
    const std::string place = trace::item_name(pair_.reference, records_.of_target[record].index, index);
    found += add_value(record, place, "nothing", show(pair_.reference, &item), false, kInfinity);
  }
  return found;
}

Finding& CallWalker::add_argument(std::uint32_t record, const std::string& item) {
  Finding& finding = add(FindingKind::kArgument, record);
  finding.name = item;
  finding.distance = Distance::unmeasurable();
  return finding;
}

void CallWalker::tell_values(Finding& finding) {
  finding.reason =
      finding.name + " is " + finding.target_value + ", in the reference " + finding.reference_value;
}

std::size_t CallWalker::add_value(std::uint32_t record, const std::string& item, std::string ours,
                                  std::string theirs, bool is_tensor, double apart) {
  Finding& finding = add_argument(record, item);
  finding.target_value = std::move(ours);
  finding.reference_value = std::move(theirs);
  tell_values(finding);
  if (is_tensor && differs_) finding.exact_before = false;
  waiting_.push_back({finding_number(finding), record, apart});
  return 1;
}

std::size_t CallWalker::finding_number(const Finding& finding) const {
  return &finding == &discarded_ ? kNoAlone
                                 : static_cast<std::size_t>(&finding - result_.walk.findings.data());
}

bool CallWalker::same_tensors_in_other_order(std::uint32_t record) const {
  const auto keys_of = [](const Trace& trace, const Record& one) {
    std::vector<std::string_view> shapes;
    for (const Item& item : trace.items(one)) {
      if (item.kind == Item::Kind::kTensor) shapes.push_back(trace.text(item.shape));
    }
    std::sort(shapes.begin(), shapes.end());
    return shapes;
  };
  const Record& ours = pair_.target.records()[record];
  const Record& theirs = pair_.reference.records()[records_.of_target[record].index];
  const bool has_lone_tensor =
      std::any_of(rows_.of_record(record).begin(), rows_.of_record(record).end(), [&](const ItemPair& row) {
        return !row.reference && pair_.target_item(row).kind == Item::Kind::kTensor;
      });
  return has_lone_tensor && keys_of(pair_.target, ours) == keys_of(pair_.reference, theirs);
}

// ---- Tensors that come in

CallWalker::Explained CallWalker::explain_input(const ItemPair& row, bool backward) {
  const Item& reference = *pair_.reference_item(row);
  Explained result;
  result.source = reference_flow().source(row.reference.index);
  if (result.source != kNoItem) {
    if (const std::uint32_t known = row_of_reference(result.source); known != kNoRow) {
      const Distance& there = distances_[known];
      const double count = std::max(trace::element_count(pair_.reference.text(reference.shape)), 1.0);
      result.allowed = {there.high, there.bias + there.high / std::sqrt(count), there.value};
      const double unit = unit_of(reference);
      if (rows_[known].target_record > row.target_record) {  // it does not exist yet in the target
        result.allowed = composite(noise_, noise_, unit);
      } else if (count == 1) {  // two numbers may be the same in the reference, and have been computed apart
        result.allowed = composite(std::max(noise_, there.high), there.value, unit);
      }
      if (is_after_backward_) {  // so may two biases of one sum: their gradients, and what is kept of them
        const metrics::TensorFacts facts = trace::facts_of(pair_.reference, reference);
        for (const auto& twin : {made_by_backward(facts), left_by_optimizer(facts)}) {
          if (twin && twin->magnitude > result.allowed.magnitude) result.allowed = *twin;
        }
      }
      return result;
    }
    const std::uint32_t record = reference_flow().record(result.source);
    if (const auto found = alone_of_reference_.find(record); found != alone_of_reference_.end()) {
      result.alone = found->second;
      const Resolved led = resolved(record);
      result.allowed = through(alone_[found->second], led, std::max(unit_of(reference), coarsest_unit_),
                               std::max(trace::element_count(pair_.reference.text(reference.shape)), 1.0));
    } else {  // a result that cannot be compared
      result.allowed = {kInfinity, kInfinity};
    }
    return result;
  }
  if (const auto known = source_in_target(row)) {
    const Distance& there = distances_[*known];
    const double count = std::max(trace::element_count(pair_.reference.text(reference.shape)), 1.0);
    const double unit = unit_of(reference);
    result.allowed = {there.high + unit, there.bias + there.high / std::sqrt(count) + unit,
                      there.value + unit};
    return result;
  }
  const bool knows_all = pair_.target.level() != "L0" && !backward && !is_after_backward_;
  double noise = std::max(noise_, before_ != nullptr ? before_->noise : 0);
  const double unit = unit_of(reference);
  const metrics::TensorFacts facts = trace::facts_of(pair_.reference, reference);
  if (is_after_backward_) {
    if (const auto made = made_by_backward(facts)) {
      result.allowed = *made;
      return result;
    }
    // A gradient that was reduced or scaled on the way.
    if (!backward && !gradients_of_parameters_.empty()) noise = largest_gradient_ / kRoundingModel.composite;
  }
  if (const auto left = left_by_optimizer(facts)) {
    result.allowed = *left;
  } else if (noise == 0 && knows_all) {
    result.allowed = source_allowance(compare::result_of(facts));
  } else {
    result.allowed = composite(noise, noise, unit);
  }
  // Integers and flags: data, or chosen by what is not seen here.
  if (unit == 0)
    result.allowed.magnitude = knows_all && !has_flips_ ? 0 : 2 * std::sqrt(std::min(noise, 1.0));
  return result;
}

std::optional<Allowance> CallWalker::made_by_backward(const metrics::TensorFacts& reference) const {
  const Distance* made = gradients_of_parameters_.find(reference);
  double more = metrics::unit_roundoff(reference.dtype);
  if (made == nullptr) {  // clipped, or without the scale of the loss: the factor depends on all gradients
    made = gradients_of_parameters_.find_scaled(reference);
    more += whole_gradient_;
  }
  if (made == nullptr) return std::nullopt;
  return Allowance{made->high + more, made->bias + made->high + more, made->value + more};
}

std::optional<Allowance> CallWalker::left_by_optimizer(const metrics::TensorFacts& reference) const {
  const Distance* left = before_ == nullptr ? nullptr : before_->updated.find(reference);
  if (left == nullptr) return std::nullopt;
  const double high = left->high + metrics::unit_roundoff(reference.dtype);
  return Allowance{high, high};
}

std::optional<std::uint32_t> CallWalker::source_in_target(const ItemPair& row) {
  if (zone_of(row.target_record) == Zone::kModel && !is_after_backward_) return std::nullopt;
  const ItemIndex ours = target_flow().source(row.target);
  const std::uint32_t known = ours == kNoItem ? kNoRow : row_of_target(ours);
  if (known == kNoRow || !rows_[known].reference) return std::nullopt;
  if (trace::element_count(pair_.target.text(pair_.target_item(row).shape)) <= 1) return std::nullopt;
  return known;
}

void CallWalker::visit_input(std::uint32_t record, const ItemPair& row, const Distance& apart) {
  const bool backward = is_backward(name(record));
  const std::string parameter = backward ? std::string() : parameter_of(record, row);
  if (!parameter.empty()) {
    visit_parameter(record, row, apart, parameter);
    return;
  }
  const Explained explained = explain_input(row, backward);
  const double strength = beyond(apart, explained.allowed);
  note_closest(strength, row);
  const ItemIndex ours = target_flow().source(row.target);
  if (credit_alone(explained, ours, visible(apart, explained.allowed)) || strength < 1) return;
  if (explained.alone != kNoAlone) return;
  Finding& finding = add_input(record, row, apart, explained.allowed, strength);
  if (explained.source != kNoItem) {
    name_after_module(finding, row);
    tell_in_place(finding, row, explained.source, ours);
    if (ours == kNoItem) rearranged_.push_back({finding_number(finding), record, 0});
  } else if (backward) {
    finding.kind = FindingKind::kGradient;
  } else if (!differs_ && noise_ == 0 && record == 0 && !has_state_) {
    finding.kind = FindingKind::kInputData;
    finding.reason = item_name(row) + ", the first that goes into the model, differs";
  }
  if (std::isfinite(apart.high)) noise_ = std::max(noise_, apart.high);
}

Finding& CallWalker::add_input(std::uint32_t record, const ItemPair& row, const Distance& apart,
                               const Allowance& allowed, double strength) {
  Finding& finding = add(FindingKind::kArgument, record);
  finding.name = item_name(row);
  finding.distance = apart;
  finding.explained = allowed.magnitude;
  finding.strength = strength;
  finding.reason = finding.name + " differs, and no recorded call made the difference";
  return finding;
}

void CallWalker::name_after_module(Finding& finding, const ItemPair& row) {
  const std::uint64_t value = value_key(pair_.target, pair_.target_item(row));
  for (int depth = 0; value != 0 && depth < kDeepest; ++depth) {
    const std::string_view around = parents_.parent(finding.record);
    const auto module = is_module(around) ? pair_.target.find(around) : std::nullopt;
    if (!module) return;
    const Record& record = pair_.target.records()[*module];
    const auto items = pair_.target.items(record);
    const auto same = std::find_if(items.begin(), items.end(), [&](const Item& item) {
      return is_input(item.part) && value_key(pair_.target, item) == value;
    });
    if (same == items.end()) return;
    finding.record = around;
    finding.name = trace::item_name(pair_.target, static_cast<std::uint32_t>(*module),
                                    record.first_item + static_cast<ItemIndex>(same - items.begin()));
    finding.module = module_path(parents_.parent(around));
    finding.operator_name = operator_name(around);
  }
}

void CallWalker::tell_in_place(Finding& finding, const ItemPair& row, ItemIndex source, ItemIndex ours) {
  const std::uint32_t known = row_of_reference(source);
  if (known == kNoRow) return;
  const std::string from = item_name(rows_[known]);
  finding.kind = FindingKind::kInPlace;
  finding.reason =
      finding.name + " is " + from + " in the reference; in the target it was changed between the two";
  if (ours == kNoItem) return;
  const std::uint32_t writer = target_flow().record(ours);
  if (writes_in_place(writer)) {
    finding.reason += ", by " + std::string(name(writer));
    finding.record = name(writer);
    finding.operator_name = operator_name(name(writer));
  } else if (writer != row.target_record) {
    finding.kind = FindingKind::kArgument;
    finding.reason = finding.name + " is " + from + " in the reference; in the target it is " +
                     trace::item_name(pair_.target, writer, ours);
  }
}

bool CallWalker::writes_in_place(std::uint32_t record) const {
  if (operators::find(operator_name(name(record))).is_in_place) return true;
  const auto items = pair_.target.items(pair_.target.records()[record]);
  return std::any_of(items.begin(), items.end(),
                     [&](const Item& item) {
                       return is_input(item.part) && pair_.target.text(item.path).ends_with("inplace") &&
                              pair_.target.text(item.value) == "True";
                     }) ||
         asks_in_place(record, items);
}

bool CallWalker::asks_in_place(std::uint32_t record, std::span<const Item> items) const {
  const int position = operators::find(operator_name(name(record))).inplace_position;
  return position >= 0 && std::any_of(items.begin(), items.end(), [&](const Item& item) {
           return item.part == Part::kInputArgs && item.value.kind == trace::Scalar::Kind::kBool &&
                  pair_.target.text(item.value) == "True" &&
                  pair_.target.text(item.path) == std::to_string(position);
         });
}

void CallWalker::visit_parameter(std::uint32_t record, const ItemPair& row, const Distance& apart,
                                 const std::string& parameter) {
  if (has_state_ || zone_of(record) != Zone::kModel) return;
  const Item& reference = *pair_.reference_item(row);
  const metrics::TensorFacts facts = trace::facts_of(pair_.reference, reference);
  Allowance allowed = source_allowance(compare::result_of(facts));
  if (before_ != nullptr) {
    const std::string_view module = is_module(name(record)) ? name(record) : parent_of(record);
    if (const auto left = left_by_optimizer(facts)) {
      allowed = *left;
    } else {
      allowed = allowed_of_updated(reference, parameter_key(module, parameter));
    }
  }
  const double strength = beyond(apart, allowed);
  note_closest(strength, row);
  if (strength < 1) return;
  Finding& finding = add_input(record, row, apart, allowed, strength);
  finding.kind = FindingKind::kWeight;
  finding.exact_before = before_ == nullptr || before_->noise == 0;
  finding.reason = "parameter " + parameter + " of " + std::string(parent_of(record)) + " differs";
}

Allowance CallWalker::allowed_of_updated(const Item& reference, const std::string& key) const {
  const auto found = before_->parameters.find(key);
  if (found == before_->parameters.end()) return {kInfinity, kInfinity};
  Result result = compare::result_of(trace::facts_of(pair_.reference, reference));
  result.step = metrics::distance(trace::facts_of(pair_.reference, reference), found->second).expected;
  const auto left = before_->left_behind.find(key);
  Influence updated, gradient;
  if (left != before_->left_behind.end()) updated.distance.expected = updated.distance.bias = left->second;
  gradient.distance.expected = 1;
  operators::Row update;
  update.gain = operators::Gain::kUpdate;
  return allowance(update, result, std::array{updated, gradient}, 0);
}

std::string CallWalker::parameter_of(std::uint32_t record, const ItemPair& row) {
  const Item& item = pair_.target_item(row);
  if (item.part == Part::kParameters) return std::string(pair_.target.text(item.path));
  const auto module = pair_.target.find(parent_of(record));
  if (!module) return {};
  for (const Item& other : pair_.target.items(pair_.target.records()[*module])) {
    if (other.part == Part::kParameters && pair_.target.text(other.shape) == pair_.target.text(item.shape) &&
        pair_.target.text(other.norm) == pair_.target.text(item.norm) &&
        pair_.target.text(other.mean) == pair_.target.text(item.mean)) {
      return std::string(pair_.target.text(other.path));
    }
  }
  return {};
}

}  // namespace msprobe::compare

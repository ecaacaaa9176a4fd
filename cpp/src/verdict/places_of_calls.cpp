// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/places_of_calls.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "verdict/state_entry.h"

namespace msprobe::verdict {
namespace {

using operators::Gain;
using operators::Keeps;
using Part = Item::Part;

// All that was computed before is off by so much.
Source of_everything(double reached) { return source_of(of_error(reached), {}); }

}  // namespace

CallPlaces::CallPlaces(const Calls& calls, const Unpaired& unpaired, const StepWalk* before)
    : model_(calls.model()),
      calls_(calls),
      unpaired_(unpaired),
      before_(before),
      of_theirs_(calls, calls.theirs()),
      of_ours_(calls, calls.ours()),
      rounding_of_theirs_(calls, calls.theirs(), ExpectedErrors::Of::kRounding),
      rounding_of_ours_(calls, calls.ours(), ExpectedErrors::Of::kRounding),
      reached_(calls.count() + 1, before ? before->noise : 0) {
  double differences = 0, squares = 0;
  for (const ItemPair& row : calls.pair().matches.pairs) {
    if (!row.reference || !trace::holds_gradients(calls.name(row.target_record))) continue;
    const Distance& apart = calls.distance(row);
    const metrics::TensorFacts facts = calls.facts(row);
    gradients_.add(facts, apart);
    if (!std::isfinite(apart.high)) continue;
    largest_gradient_ = std::max(largest_gradient_, apart.high);
    const double square = facts.squares();
    differences += apart.high * apart.high * square;
    squares += square;
  }
  if (squares > 0) whole_gradient_ = std::sqrt(differences / squares);
}

// ---- what is known of earlier places

void CallPlaces::reach(std::uint32_t record, double error) {
  reached_[record + 1] = std::max(reached_[record], std::isfinite(error) ? error : 0);
}

void CallPlaces::keep(const ItemPair& row, const Place& place) {
  has_other_choices_ |= place.tensor.unit == 0 && !is_input(calls_.item(row).part);
  if (const double error = model_.unseen(place); error > 0) unseen_[calls_.index(row)] = error;
  if (const Common shared = model_.common(place); shared.error > 0) common_[calls_.index(row)] = shared;
}

const CallPlaces::Inside* CallPlaces::inside(std::string_view module) const {
  const auto found = inside_.find(module);
  return found == inside_.end() ? nullptr : &found->second;
}

void CallPlaces::keep_inside(std::uint32_t record, double error) {
  const std::string_view around = calls_.parent(record);
  if (around.empty()) return;
  Inside own;
  if (const Inside* const known = inside(calls_.name(record))) own = *known;
  own.error = std::max(own.error, std::isfinite(error) ? error : 0);
  for (const ItemPair& row : calls_.rows_of(record)) {
    if (calls_.is_result(row)) own.unit = std::max(own.unit, calls_.unit(row));
  }
  Inside& outer = inside_[around];
  outer.error = std::max(outer.error, own.error);
  outer.unit = std::max(outer.unit, own.unit);
  outer.parameters = std::max(outer.parameters, parameters_of(record));
}

double CallPlaces::parameters_of(std::uint32_t record) const {
  const std::uint32_t forward = calls_.forward_of(record).value_or(record);
  const Inside* const parts = inside(calls_.name(forward));
  double error = parts != nullptr ? parts->parameters : 0;
  for (const ItemPair& row : calls_.rows_of(forward)) {
    if (row.reference && calls_.item(row).part == Part::kParameters)
      error = std::max(error, calls_.distance(row).expected);
  }
  return std::isfinite(error) ? error : 0;
}

// ---- sources of a call

Source CallPlaces::source(const ItemPair& row, bool is_saved) const {
  Source source = source_at(calls_.index(row));
  source.is_saved = is_saved;
  const bool has_origin = before_ != nullptr || !unpaired_.groups().empty();
  source.is_shared = has_origin && !source.distance.equal;
  std::uint32_t last = source.row, maker = source.row;
  if ((!is_saved || is_input(calls_.item(row).part)) && !(unseen_.empty() && common_.empty())) {
    const ItemIndex from = calls_.theirs().flow().source(row.reference.index);
    if (from != kNoItem) last = calls_.theirs().row_of(from);
    // Modules around have the same value behind the call that made it.
    maker = calls_.theirs().row_of(calls_.theirs().flow().first(row.reference.index));
  }
  if (const auto known = unseen_.find(last); known != unseen_.end()) source.unseen = known->second;
  if (const auto known = common_.find(maker); known != common_.end()) source.common = known->second;
  return source;
}

bool CallPlaces::sources(std::uint32_t record, std::vector<Source>& found) const {
  bool knows_all = add_sources(record, false, found);
  if (const auto forward = calls_.forward_of(record)) knows_all &= add_sources(*forward, true, found);
  return knows_all;
}

bool CallPlaces::add_sources(std::uint32_t record, bool is_saved, std::vector<Source>& found) const {
  bool knows_all = true;
  const Keeps keeps = is_saved ? calls_.operator_of(calls_.name(record)).keeps : Keeps::kAll;
  for (const ItemPair& row : calls_.rows_of(record)) {
    const Item& item = calls_.item(row);
    if (const auto number = is_saved ? std::nullopt : computed_number(row)) found.push_back(*number);
    if (!is_source(item, is_saved, keeps) || calls_.says_nothing(row)) continue;
    if (row.reference) {
      found.push_back(source(row, is_saved));
    } else {
      knows_all = false;
    }
  }
  if (!is_saved && model_.shared_rows) sum_over_rows(record, found);
  return knows_all && std::ranges::none_of(calls_.reference_only(record), [&](std::uint32_t index) {
           const Item& item = calls_.reference().all_items()[index];
           return is_tensor(item) && is_input(item.part);
         });
}

std::optional<Source> CallPlaces::computed_number(const ItemPair& row) const {
  const Item& item = calls_.item(row);
  const Distance& apart = calls_.distance(row);
  const bool may_be =
      row.reference && !apart.equal && is_input(item.part) && item.value.kind == trace::Scalar::Kind::kFloat;
  if (!may_be ||
      !is_computed(model_, calls_.target().number(item.value),
                   calls_.reference().number(calls_.other_item(row)->value), reached_[row.target_record]))
    return std::nullopt;
  return source_of(of_error(apart.high), {}, calls_.index(row));
}

// A product sums over the rows. Errors that are alike in all rows are alike in all rows of the result, which
// have as many as there are columns of the weight; those of two results, as scores are, where a mean stands
// in the rows, leave none that another one averages out. What an optimizer moved in front of a weight, it
// moved along gradients, which are sums of its columns: of n columns of m numbers, such an error is sqrt(m /
// n) times larger there than one in any direction.
void CallPlaces::sum_over_rows(std::uint32_t record, std::vector<Source>& terms) const {
  if (std::ranges::none_of(terms, &Source::is_shared)) return;
  if (calls_.operator_of(calls_.name(record)).gain != Gain::kProduct) return;
  const auto is_weight = [&](const Source& one) { return !calls_.parameter(calls_.row(one.row)).empty(); };
  const auto weight = std::ranges::find_if(terms, is_weight);
  for (Source& one : terms) {
    if (!one.is_shared) continue;
    if (is_weight(one)) {
      if (before_ != nullptr) one.aligned = std::sqrt(std::max(one.tensor.last, 1.0));
      continue;
    }
    const double columns = weight == terms.end() ? 1 : std::max(weight->tensor.count / one.tensor.last, 1.0);
    if (weight != terms.end()) one.aligned = std::sqrt(std::max(one.tensor.last / columns, 1.0));
    one.tensor.last = columns;
  }
}

// ---- what goes into a call

std::optional<OwnChange> CallPlaces::own_change(const ItemPair& row, const InputPlace& input,
                                                ItemIndex ours) const {
  if (!model_.own_change || ours == kNoItem || input.source == kNoItem || input.place.tensor.unit == 0)
    return std::nullopt;
  const auto changed = [&](const Trace& trace, const Item& now, ItemIndex was, const Source& rounding) {
    return OwnChange{trace::distance(trace, now, trace, &trace.all_items()[was], nullptr),
                     place_by(Rule::kChain, input.place.tensor, {rounding})};
  };
  const Earlier earlier{before_, reached_[row.target_record], unseen_};
  const std::uint32_t theirs = calls_.theirs().row_of(input.source);
  const auto extra = unpaired_.of_target(calls_.ours().flow().record(ours));
  if (extra && theirs != kNoRow && calls_.row(theirs).target_record < row.target_record) {
    return changed(calls_.target(), calls_.item(row), calls_.row(theirs).target,
                   rounding_of_ours_.of(ours, earlier));
  }
  const std::uint32_t known = calls_.ours().row_of(ours);
  if (!input.of_unpaired || known == kNoRow || !calls_.row(known).reference) return std::nullopt;
  return changed(calls_.reference(), *calls_.other_item(row), calls_.row(known).reference.index,
                 rounding_of_theirs_.of(input.source, earlier));
}

Source CallPlaces::source_at(std::uint32_t row) const {
  const ItemPair& there = calls_.row(row);
  return source_of(calls_.distance(there), calls_.tensor(there), row);
}

// What has the value of an earlier place; scaled or cast on the way, where it is rounded once more.
static Place same_as(const Source& source, const Tensor& tensor, double extra_rounding) {
  Place place = place_by(Rule::kSameValue, tensor, {source});
  place.extra_rounding = extra_rounding;
  return place;
}

// What one run casts, and the other one, whose dtype it is already, hands on itself, has there the gradient
// of all that takes it.
static bool is_cast_in_one_run(const Calls& calls, std::uint32_t record) {
  if (!calls.operator_of(calls.name(record)).only_moves()) return false;
  std::array<std::set<std::string_view>, 2> dtypes;  // of the target, and of the reference
  for (const ItemPair& row : calls.rows_of(record)) {
    if (!row.reference || !is_tensor(calls.item(row))) continue;
    dtypes[0].insert(calls.target().text(calls.item(row).dtype));
    dtypes[1].insert(calls.reference().text(calls.other_item(row)->dtype));
  }
  return dtypes[0].size() != dtypes[1].size();
}

InputPlace CallPlaces::input(const ItemPair& row) const {
  InputPlace result;
  const auto forward = calls_.forward_of(row.target_record);
  if (forward && is_cast_in_one_run(calls_, *forward)) {
    result.place = place_by(Rule::kUnknown, calls_.tensor(row));
    return result;
  }
  result.source = calls_.theirs().origin(row.reference.index);
  if (result.source == kNoItem) {
    result.place = input_without_source(row);
    result.is_of_model = calls_.may_be_of_model(row.target_record);
    return result;
  }
  const Tensor tensor = calls_.tensor(row);
  if (const std::uint32_t known = calls_.theirs().row_of(result.source); known != kNoRow) {
    Source source = source_at(known);
    if (const auto hidden = unseen_.find(known); hidden != unseen_.end()) source.unseen = hidden->second;
    result.place = same_as(source, tensor, 0);
    if (model_.single_number && tensor.count == 1) {  // two may be equal in the reference by chance
      result.place = place_by(Rule::kOpaque, tensor, {of_everything(reached_[row.target_record]), source});
    }
    return result;
  }
  const std::uint32_t maker = calls_.theirs().flow().record(result.source);
  result.of_unpaired = unpaired_.of_reference(maker);
  if (!result.of_unpaired && calls_.theirs().is_paired(maker)) {
    result.place = place_by(Rule::kUnknown, tensor);  // a result that cannot be compared
  } else {
    const ItemIndex ours = calls_.ours().origin(row.target);
    const Earlier earlier{before_, reached_[row.target_record], unseen_};
    // Calls of the target that are not seen round it, too.
    result.place = place_by(Rule::kChain, tensor, {of_theirs_.of(result.source, earlier)});
    result.place.sources.push_back(
        ours != kNoItem
            ? of_ours_.of(ours, earlier)
            : source_of(of_error(tensor.unit > 0 ? model_.own_rounding(calls_.coarsest_unit()) : 0), tensor));
  }
  return result;
}

// The reference has its value from no earlier place.
Place CallPlaces::input_without_source(const ItemPair& row) const {
  const std::uint32_t record = row.target_record;
  const bool is_behind = calls_.is_after_backward(record);
  const Tensor tensor = calls_.tensor(row);
  const metrics::TensorFacts facts = calls_.facts(row);
  const bool tells = tensor.count > 1;  // one number is equal to another by chance, as norms and losses
  const auto left_at = [&](const Distance& distance) {
    return same_as(source_of(distance, tensor), tensor, 1);
  };
  if (model_.unchanged_in_target && (is_behind || calls_.zone(record) != Zone::kModel)) {
    // The target has it unchanged from an earlier place.
    const ItemIndex ours = calls_.ours().origin(row.target);
    const std::uint32_t known = ours == kNoItem ? kNoRow : calls_.ours().row_of(ours);
    if (known != kNoRow && calls_.row(known).reference && tells) return same_as(source_at(known), tensor, 1);
  }
  if (is_behind && tells) {
    if (const Distance* const made = gradients_.find(facts)) return left_at(*made);  // of a parameter
    // Clipped, or the scale of a loss was taken out: the factor depends on all gradients.
    if (const Distance* const scaled = model_.scaled_gradient ? gradients_.find_scaled(facts) : nullptr) {
      Distance distance = *scaled;
      for (double* one : {&distance.high, &distance.bias, &distance.expected, &distance.value})
        *one += whole_gradient_;
      return left_at(distance);
    }
  }
  if (before_ != nullptr && model_.left_by_optimizer && tells) {
    if (const Distance* const left = before_->updated.find(facts)) return left_at(*left);
  }
  if (calls_.is_preparation(record) && model_.prepared) {
    if (const Distance* const held = of_theirs_.parameters().find(facts); held != nullptr && tells)
      return left_at(*held);
    if (calls_.may_be_of_model(record)) return made_by_model(record, tensor);
  }
  const bool backward = is_backward(calls_.name(record));
  const bool may_be_gradient = is_behind || (calls_.has_earlier_passes() && calls_.parent(record).empty());
  const bool knows_all = !calls_.has_modules_only() && !backward && !may_be_gradient;
  // Integers and flags that no call made are data.
  const bool is_data = model_.integers_are_data && tensor.unit == 0 && !has_other_choices_;
  if (knows_all && (reached_[record] == 0 || is_data)) return given_data(tensor);
  // Behind the backward pass it is a gradient that was reduced or scaled. Under autocast it was computed in
  // another dtype.
  const bool is_gradient = model_.reduced_gradient && may_be_gradient && !backward;
  Place place =
      place_through(is_gradient && largest_gradient_ > 0 ? largest_gradient_ : reached_[record], tensor);
  if (is_gradient && tensor.unit > 0) place.tensor.unit = std::max(tensor.unit, calls_.coarsest_unit());
  return place;
}

// How far off a model's results may be, of which no call is seen: by what went through it (R3), and by its
// own.
Place CallPlaces::made_by_model(std::uint32_t record, const Tensor& tensor) const {
  const double lost = Model::half_of_digits(std::max(tensor.unit, calls_.coarsest_unit()));
  const double through = model_.opaque * model_.opaque * reached_[record];
  return place_by(tensor.unit > 0 ? Rule::kSameValue : Rule::kOpaque, tensor,
                  {source_of(of_error(std::max(lost, through)), tensor)});
}

Place CallPlaces::parameter(const ItemPair& row, const std::string& name) const {
  const Tensor tensor = calls_.tensor(row);
  if (before_ == nullptr) return place_by(Rule::kOrigin, tensor);
  const std::string_view call = calls_.name(row.target_record);
  const std::string key = parameter_key(is_module(call) ? call : calls_.parent(row.target_record), name);
  return left_behind(model_, *before_, key, calls_.facts(row), tensor);
}

Place left_behind(const Model& model, const compare::StepWalk& before, const std::string& name,
                  const metrics::TensorFacts& facts, const Tensor& tensor) {
  const auto left = before.left.find(name);
  const auto earlier = before.parameters.find(name);
  const bool is_known = left != before.left.end() && earlier != before.parameters.end();
  // Of equal weights, gradients, states and settings, whatever calls make it: a step of an unknown optimizer.
  const bool is_equal =
      model.equal_step && is_known && left->second.error == 0 && left->second.error_of_step == 0;
  if (const Distance* const updated = is_equal ? nullptr : before.updated.find(facts))
    return place_by(Gain::kSum, tensor, {source_of(*updated, tensor)});  // what was added to it rounds
  if (!is_known) return place_through(before.noise, tensor, 2);
  // An optimizer whose calls are not seen moved it. How far, is known from the reference.
  Place place = place_by(Rule::kUpdate, tensor,
                         {source_of(of_error(left->second.error), tensor),
                          source_of(of_error(left->second.error_of_step), tensor)});
  place.step = metrics::distance(facts, earlier->second).high;
  return place;
}

std::string CallPlaces::parameter_key(std::string_view module, std::string_view parameter) {
  return "parameter." + module_path(module) + '.' + std::string(parameter);
}

// ---- what comes out of a call

Place CallPlaces::result(const ItemPair& row, const std::vector<Source>& sources, bool knows_sources) const {
  const std::string_view call = calls_.name(row.target_record);
  const Tensor tensor = calls_.tensor(row);
  if (!knows_sources) return place_by(Rule::kUnknown, tensor);
  Place place =
      place_of_call(calls_, calls_.theirs(), calls_.counterpart(row.target_record), tensor, sources);
  // An earlier pass was computed with, and adds to its inside; or what comes in was not seen, as where
  // something is written into the result of the forward call.
  const bool is_seen =
      !place.is_backward || std::ranges::any_of(sources, [](const Source& one) { return !one.is_saved; });
  if (calls_.passes(row.target_record) > 1 || !is_seen) {
    place.rule = Rule::kOpaque;
    place.sources.push_back(of_everything(reached_[row.target_record]));
    return place;
  }
  // The reference's is cast, and that of the target keeps more digits.
  if (metrics::unit_roundoff(calls_.item(row).element_type()) < tensor.unit) place.extra_rounding = 1;
  const bool is_composite =
      model_.module_in_coarsest && (is_module(call) || place.by.gain == Gain::kRecurrent);
  // Under autocast, what is computed inside may be of a coarser dtype than what comes out.
  if (is_composite && place.tensor.unit > 0)
    place.tensor.unit = std::max(place.tensor.unit, calls_.coarsest_unit());
  if (place.by.gain == Gain::kUpdate) {
    place.rule = Rule::kUpdate;
    place.step = step_of(row);
  }
  // A module is as far off as what is computed inside of it.
  if (const Inside* const parts = inside(call)) {
    place.inside = source_of(of_error(parts->error), place.tensor);
    place.inside->tensor.unit = std::max(parts->unit, calls_.unit(row));
  }
  return place;
}

// How far the reference's call moved its first tensor, as a part of it.
double CallPlaces::step_of(const ItemPair& row) const {
  const Trace& reference = calls_.reference();
  const Item& after = *calls_.other_item(row);
  for (const Item& item : calls_.theirs().items(calls_.counterpart(row.target_record))) {
    if (!is_input(item.part) || !is_tensor(item)) continue;
    if (reference.text(item.shape) != reference.text(after.shape)) break;
    const double step = trace::distance(reference, after, reference, &item, nullptr).high;
    return step > 0 ? step : kInfinity;
  }
  return kInfinity;  // lists of tensors, a step that cannot be seen
}

// ---- gradients of parameters

Place CallPlaces::gradient(const ItemPair& row) const {
  Tensor tensor = calls_.tensor(row);
  // It is the very result of a backward call.
  const Flow& flow = calls_.theirs().flow();
  for (ItemIndex item = model_.gradient_of_backward_result ? flow.follower(row.reference.index) : kNoItem;
       item != kNoItem; item = flow.follower(item)) {
    const std::uint32_t known = calls_.theirs().row_of(item);
    if (is_input(calls_.reference().all_items()[item].part) ||
        !is_backward(calls_.theirs().name(flow.record(item))) || known == kNoRow) {
      continue;
    }
    Source made = source_at(known);
    made.distance = calls_.distance(calls_.row(known), calls_.negligible_gradient());
    return same_as(made, tensor, 0);
  }
  // Else all that goes into the backward calls of its module; without one, everything before. Under autocast
  // they compute in another dtype than that of the gradient.
  tensor.unit = std::max(tensor.unit, calls_.coarsest_unit());
  const std::string_view gradients = calls_.name(row.target_record);
  const std::vector<std::uint32_t> backward = backward_calls(calls_.target(), gradients);
  const bool is_second = std::ranges::any_of(backward, [&](auto one) { return calls_.passes(one) > 1; });
  double error = backward.empty() || is_second ? reached_[row.target_record] : 0;
  // A bias, or the weight of a normalisation, gets a sum of what comes in, over all calls.
  double terms = 0;
  const auto add_record = [&](std::uint32_t record) {
    for (const ItemPair& one : calls_.rows_of(record)) {
      if (one.reference && is_tensor(calls_.item(one)) && std::isfinite(calls_.distance(one).high)) {
        error = std::max(error, calls_.distance(one).high);
      }
    }
  };
  for (const std::uint32_t record : backward) {
    add_record(record);
    if (tensor.count == tensor.last) terms = std::max(terms, largest_sum(record, tensor.count));
    if (const Inside* const parts = inside(calls_.name(record))) error = std::max(error, parts->error);
    if (const auto forward = calls_.forward_of(record)) add_record(*forward);
  }
  Place place = place_through(error, tensor);
  if (tensor.norm > 0) place.smaller = std::max(terms / tensor.norm, 1.0);
  return place;
}

double CallPlaces::largest_sum(std::uint32_t record, double count) const {
  double largest = 0;
  for (const ItemPair& row : calls_.rows_of(record)) {
    const bool is_given = row.reference && is_tensor(calls_.item(row)) && is_input(calls_.item(row).part);
    if (!is_given) continue;
    // A sum over the rows is as large as all elements where their signs are random, and larger by their mean.
    const double mean = std::abs(calls_.facts(row).mean.value_or(0)) * calls_.tensor(row).count;
    largest = std::max({largest, calls_.tensor(row).norm, mean / std::sqrt(std::max(count, 1.0))});
  }
  return largest;
}

}  // namespace msprobe::verdict

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/expected_errors.h"

#include <algorithm>
#include <cmath>

#include "verdict/operator_error.h"
#include "verdict/state_entry.h"

namespace msprobe::verdict {
namespace {

using operators::Gain;
using operators::Keeps;

// Of the same call in this direction: the first tensor with so many elements that goes in, or comes out.
Tensor tensor_in(const Calls& calls, const Run& run, std::uint32_t record, trace::Direction direction,
                 bool is_given, double count) {
  const auto found = run.find(record, direction);
  for (const Item& item : found ? run.items(*found) : std::span<const Item>()) {
    if (is_input(item.part) != is_given || !is_tensor(item)) continue;
    if (trace::element_count(run.trace.text(item.shape)) == count) return calls.tensor(run.trace, item);
  }
  return {};
}

// A normalisation y(x) divides each row or channel by its own size, and x is off by a part of all of it: a
// small channel by more of its own, and its gradient is the largest. Sizes tell: |dx| / |dy| is what the
// channels do that most of the gradient is in, |y| / |x| what a typical one does. A gradient is in few
// channels where its largest element is more than that.
double unevenness(const Calls& calls, const Run& run, std::uint32_t record, const Place& place) {
  using trace::Direction;
  const double count = place.tensor.count;
  const auto tensor_of = [&](bool is_saved) {
    const auto found = std::ranges::find_if(place.sources, [&](const Source& one) {
      return one.is_saved == is_saved && one.tensor.count == count;
    });
    return found == place.sources.end() ? Tensor() : found->tensor;
  };
  const Tensor x = tensor_of(place.is_backward);
  if (x.norm == 0) return 1;
  Tensor y = place.tensor, dx = place.tensor, dy;
  if (place.is_backward) {
    dy = tensor_of(false);
    y = tensor_in(calls, run, record, Direction::kForward, false, count);
  } else {
    dy = tensor_in(calls, run, record, Direction::kBackward, true, count);
    dx = tensor_in(calls, run, record, Direction::kBackward, false, count);
  }
  if (y.norm == 0 || dy.norm == 0) return 1;
  const double steep = dx.norm / dy.norm;
  return x.norm / y.norm * (place.is_backward ? std::max(steep, dx.largest / dy.largest) : steep);
}

}  // namespace

bool is_source(const Item& item, bool is_saved, Keeps keeps) {
  if (!is_tensor(item)) return false;
  if (!is_saved || keeps == Keeps::kFactors) return is_input(item.part);
  return keeps != Keeps::kNothing || metrics::unit_roundoff(item.element_type()) == 0;
}

Place place_of_call(const Calls& calls, const Run& run, std::uint32_t record, const Tensor& tensor,
                    std::vector<Source> sources) {
  Place place = place_by(Rule::kOperator, tensor, std::move(sources));
  place.is_backward = is_backward(run.name(record));
  place.by = calls.operator_of(run.name(record));
  place.terms = calls.terms(run, record, place.by, tensor.count);
  if (place.by.terms == operators::Terms::kChannel)
    place.channel = calls.terms_of_forward(run, record, place.by);
  if (place.by.gain == Gain::kScaleFree) place.uneven = unevenness(calls, run, record, place);
  return place;
}

// In the order of the records, as what goes into one comes from those before: a file may have a longer chain
// of them than this thread has a stack.
Source ExpectedErrors::of(ItemIndex item, const Earlier& earlier) const {
  for (const std::uint32_t last = run_.flow().record(item); records_ <= last; ++records_)
    add_record(records_, earlier);
  return source(item, run_.trace.all_items()[item]);
}

Source ExpectedErrors::source(ItemIndex index, const Item& item) const {
  const Known& known = known_[index];
  metrics::Distance apart = of_error(known.error);
  apart.bias = known.bias;
  return source_of(apart, calls_.tensor(run_.trace, item), known.row);
}

void ExpectedErrors::add_record(std::uint32_t record, const Earlier& earlier) const {
  const Record& one = run_.trace.records()[record];
  known_.resize(one.first_item + one.item_count);
  for (ItemIndex i = one.first_item; i < one.first_item + one.item_count; ++i) {
    const Item& item = run_.trace.all_items()[i];
    if (!is_tensor(item)) continue;
    ItemIndex source = run_.flow().source(i);
    // Gradients of parameters may stand before the calls that made them.
    if (source != kNoItem && trace::holds_gradients(run_.name(run_.flow().record(source)))) source = kNoItem;
    const std::uint32_t row = run_.row_of(i);
    const bool is_begun_with = source == kNoItem && is_input(item.part);
    const bool counts = row != kNoRow && (errors_ != Of::kWholePass || is_begun_with ||
                                          calls_.distance(calls_.row(row)).equal);
    known_[i] = counts                ? measured(row, earlier)
                : source != kNoItem   ? known_[source]
                : is_input(item.part) ? given(record, item, earlier)
                                      : made(record, item);
    if (is_backward(run_.name(record)) && !is_input(item.part))
      gradients_ = std::max(gradients_, known_[i].error);
  }
}

ExpectedErrors::Known ExpectedErrors::measured(std::uint32_t row, const Earlier& earlier) const {
  if (errors_ == Of::kRounding) return {0, 0, row};
  const auto hidden = earlier.unseen.find(row);
  const double unseen = hidden == earlier.unseen.end() ? 0 : hidden->second;
  const Distance& apart = calls_.distance(calls_.row(row));
  // The other run may not go through it, and keep the digits that are lost there.
  const double unit = calls_.unit(calls_.row(row));
  const double own = is_coarse(unit) ? calls_.model().own_rounding(unit) : 0;
  return {std::min(std::max({apart.expected, unseen, own}), kFarthest),
          std::min(apart.most_bias(), kFarthest), row};
}

// A parameter, what an optimizer left behind, or what an unseen call made.
ExpectedErrors::Known ExpectedErrors::given(std::uint32_t record, const Item& item,
                                            const Earlier& earlier) const {
  if (errors_ == Of::kRounding) return {};
  const metrics::TensorFacts facts = trace::facts_of(run_.trace, item);
  const Distance* known = earlier.step != nullptr ? earlier.step->updated.find(facts) : nullptr;
  if (known == nullptr) known = parameters().find(facts);
  if (known != nullptr)
    return {std::min(known->expected, kFarthest), std::min(known->most_bias(), kFarthest)};
  // A gradient that no call made is a sum of those before.
  const bool is_made = !parameters().empty() && item.requires_grad.value_or(false);
  const double error =
      is_backward(run_.name(record))
          ? std::max(earlier.reached, gradients_)
          : std::max(earlier.step != nullptr ? earlier.step->noise : 0, is_made ? earlier.reached : 0);
  return {error, error};
}

ExpectedErrors::Known ExpectedErrors::made(std::uint32_t record, const Item& item) const {
  std::vector<Source> sources;
  add_sources(record, false, sources);
  if (is_backward(run_.name(record))) {
    const auto forward = run_.find(record, trace::Direction::kForward);
    if (forward && *forward < record) add_sources(*forward, true, sources);
  }
  Known largest;
  for (const Source& one : sources) {
    if (one.error() >= largest.error) largest.row = one.row;
    largest.error = std::max(largest.error, one.error());
  }
  // The target may round as the reference does, and no more coarsely.
  Tensor tensor = calls_.tensor(run_.trace, item);
  if (is_target_) tensor.unit = std::min(tensor.unit, calls_.coarsest_unit());
  const Place place = place_of_call(calls_, run_, record, tensor, std::move(sources));
  const Tolerance allowed = calls_.model().tolerance(place);
  if (!std::isfinite(allowed.magnitude)) return {largest.error, largest.error, largest.row};
  largest.error = std::min(std::max(largest.error, allowed.magnitude / kMargin), kFarthest);
  largest.bias = std::min(allowed.bias / kMargin, kFarthest);
  return largest;
}

void ExpectedErrors::add_sources(std::uint32_t record, bool is_saved, std::vector<Source>& found) const {
  const Record& one = run_.trace.records()[record];
  const Keeps keeps = is_saved ? calls_.operator_of(run_.name(record)).keeps : Keeps::kAll;
  for (ItemIndex i = one.first_item; i < one.first_item + one.item_count; ++i) {
    const Item& item = run_.trace.all_items()[i];
    if (!is_source(item, is_saved, keeps)) continue;
    found.push_back(source(i, item));
    found.back().is_saved = is_saved;
  }
}

const compare::KnownValues& ExpectedErrors::parameters() const {
  if (parameters_) return *parameters_;
  parameters_.emplace();
  const DumpPair& pair = calls_.pair();
  if (!pair.target_state || !pair.reference_state) return *parameters_;
  for (const EntryPair& one :
       common(pair.target_state->root["parameters"], pair.reference_state->root["parameters"])) {
    if (const auto facts = is_target_ ? tensor_of(*one.target) : one.facts)
      parameters_->add(*facts, one.apart());
  }
  return *parameters_;
}

}  // namespace msprobe::verdict

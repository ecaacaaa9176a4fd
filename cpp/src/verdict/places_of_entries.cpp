// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/places_of_entries.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace msprobe::verdict {

using operators::Gain;
using trace::Json;

namespace {

bool is_negligible(const EntryPair& entry) { return entry.facts && entry.facts->typical() < entry.floor; }

}  // namespace

Source largest_of(const Reached& reached) {
  Source all;
  for (const auto& [name, one] : reached) {
    if (all.error() <= one.error()) all = one;
  }
  return all;
}

double largest_of_norms(const Reached& reached) {
  double largest = 0;
  for (const auto& [name, one] : reached) largest = std::max(largest, one.distance.most_bias());
  return largest;
}

Tensor tensor_at(const EntryPair& entry) {
  if (!entry.facts) return {};
  Tensor tensor = tensor_of(*entry.facts);
  if (is_negligible(entry)) {
    tensor.typical = entry.floor;
    tensor.norm = entry.floor * std::sqrt(tensor.count);
  }
  return tensor;
}

Source source_at(const EntryPair& entry) {
  Source source = source_of(entry.apart(), tensor_at(entry));
  source.is_negligible = is_negligible(entry);
  return source;
}

Place origin(const EntryPair& entry) { return place_by(Rule::kOrigin, tensor_at(entry)); }

Place kept(const EntryPair& entry, const metrics::Distance& before) {
  return place_by(Gain::kSum, tensor_at(entry), {source_of(before, tensor_at(entry))});
}

Place through_all(const EntryPair& entry, double error) { return place_through(error, tensor_at(entry), 2); }

Place after(const Reached& reached, const EntryPair& entry, Gain gain) {
  if (reached.empty()) return place_by(Rule::kUnknown, tensor_at(entry));
  const auto found = reached.find(entry.name);
  Source before = found == reached.end() ? largest_of(reached) : found->second;
  if (found == reached.end()) before.tensor = tensor_at(entry);
  return place_by(gain, tensor_at(entry), {before});
}

Place clipped(const Model& model, const Reached& before, const EntryPair& entry) {
  Place place = after(before, entry, Gain::kElementwise);
  if (place.rule != Rule::kOperator) return place;
  const double error = largest_of(before).error() + model.own_rounding(place.tensor.unit);
  place.sources.push_back(source_of(of_error(error), place.tensor));
  return place;
}

Reached with_decay(const Model& model, const Json& step, const Reached& decayed, Reached gradients) {
  for (const Json& group : step["groups"].items()) {
    const Json& hyper = group["hyper"];
    const double decay = number_of(hyper["weight_decay"]).value_or(0);
    if (decay == 0 || !model.coupled_decay || shown(hyper["decoupled_weight_decay"]) == "True") continue;
    for (const Json& name : group["parameters"].items()) {
      const auto gradient = gradients.find(name.text());
      const auto parameter = decayed.find(name.text());
      if (gradient == gradients.end() || parameter == decayed.end()) continue;
      Source& one = gradient->second;
      const double added =
          decay * parameter->second.error() * parameter->second.tensor.norm / one.tensor.norm;
      if (!std::isfinite(added)) continue;
      for (double* part : {&one.distance.high, &one.distance.expected, &one.distance.bias}) *part += added;
      one.distance.equal &= added == 0;
    }
  }
  return gradients;
}

Place state_after(const EntryPair& entry, const Reached& before, const Reached& gradients) {
  const Tensor after = tensor_at(entry);
  Tensor added = after;
  std::vector<Source> sources;
  if (const auto state = before.find(entry.name); state != before.end()) {
    sources.push_back(state->second);
    added.norm += state->second.tensor.norm;
    added.typical += state->second.tensor.typical;
  }
  added.norm *= 2;
  const auto gradient = gradients.find(entry.of);
  sources.push_back(gradient == gradients.end() ? largest_of(gradients) : gradient->second);
  // An error of what is negligible is a part of more than itself.
  if (!sources.back().is_negligible || sources.back().tensor.norm < added.norm) sources.back().tensor = added;
  return place_by(Gain::kSum, after, std::move(sources));
}

void step_by(const EntryPair& entry, const Json& earlier, Place& place) {
  const auto before = tensor_of(earlier), &after = entry.facts;
  place.rule = Rule::kUpdate;
  place.step = before && after ? metrics::distance(*after, *before).high : 1;
  if (place.sources.size() < 2) place.sources.insert(place.sources.begin(), source_of({}, place.tensor));
}

}  // namespace msprobe::verdict

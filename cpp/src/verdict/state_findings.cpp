// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/state_findings.h"

#include <algorithm>

namespace msprobe::verdict {

using compare::Clause;
using compare::Finding;
using compare::FindingKind;
using compare::Phase;
using compare::Reason;
using operators::Gain;
using trace::Json;

// ---- places

Place place_of(const EntryPair& entry) {
  Place place;
  if (const auto facts = tensor_of(*entry.reference)) place.tensor = tensor_of(*facts);
  return place;
}

Place made_of(const EntryPair& entry, Gain gain, std::vector<Source> sources) {
  Place place = place_of(entry);
  place.rule = Rule::kOperator;
  place.by.gain = gain;
  place.sources = std::move(sources);
  return place;
}

Place unknown(const EntryPair& entry) {
  Place place = place_of(entry);
  place.rule = Rule::kUnknown;
  return place;
}

Place through_all(const EntryPair& entry, double error) {
  Place place = place_of(entry);
  place.rule = Rule::kOpaque;
  place.calls = 2;
  place.sources = {source_of(of_error(error), place.tensor)};
  return place;
}

// ---- findings

Finding& StateFindings::add(FindingKind kind, Phase phase, std::string name, Clause because) {
  Finding& finding = walk_.findings.emplace_back();
  finding.kind = kind;
  finding.phase = phase;
  finding.order = ++order_;
  finding.name = std::move(name);
  finding.because = {std::move(because)};
  finding.distance = metrics::Distance::unmeasurable();
  return finding;
}

Finding& StateFindings::add_values(FindingKind kind, Phase phase, std::string name, Reason reason,
                                   std::vector<std::string> about, const Json& ours, const Json& theirs) {
  about.push_back(shown(ours));
  about.push_back(shown(theirs));
  Finding& finding = add(kind, phase, std::move(name), {reason, std::move(about)});
  finding.target_value = shown(ours);
  finding.reference_value = shown(theirs);
  return finding;
}

void StateFindings::add_counts(Phase phase, const std::string& name, const std::string& what,
                               std::size_t ours, std::size_t theirs) {
  if (ours == theirs) return;
  const std::string a = std::to_string(ours), b = std::to_string(theirs);
  Finding& finding = add(ours > theirs ? FindingKind::kExtraCall : FindingKind::kMissingCall, phase, name,
                         {Reason::kCounts, {what, a, b}});
  finding.target_value = a;
  finding.reference_value = b;
}

Finding* StateFindings::judge(FindingKind kind, Phase phase, const EntryPair& entry,
                              const metrics::Distance& apart, const Place& place, Clause because) {
  if (apart.equal) return nullptr;
  ++walk_.differing;
  const Tolerance allowed = model_.tolerance(place);
  const double strength = model_.excess(apart, allowed);
  if (strength < 1 && strength > walk_.closest.value) walk_.closest = {strength, entry.name};
  const auto no_name = [](std::uint32_t) { return std::string(); };
  if (observer_) observer_({entry.name, apart, strength, explanation(model_, place, allowed, no_name)});
  if (strength < 1) return nullptr;
  Finding& finding = add(kind, phase, entry.name, std::move(because));
  finding.module = module_of(entry.name);
  finding.distance = apart;
  finding.explained = allowed.magnitude;
  finding.strength = strength;
  finding.explanation = explanation(model_, place, allowed, no_name);
  finding.exact_before = std::all_of(place.sources.begin(), place.sources.end(),
                                     [](const Source& one) { return one.distance.equal; });
  if (!tensor_of(*entry.target) || !tensor_of(*entry.reference)) {
    finding.target_value = shown(*entry.target);
    finding.reference_value = shown(*entry.reference);
  }
  return &finding;
}

}  // namespace msprobe::verdict

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/findings.h"

#include <algorithm>

namespace msprobe::verdict {

compare::Explanation Findings::explain(const Measured& measured) const {
  return explanation(model_, measured.place, measured.allowed, source_name_);
}

Measured Findings::measure(Place place, const metrics::Distance& apart, bool counts,
                           const std::function<std::string()>& name) {
  Measured measured{apart, std::move(place), {}, counts};
  measured.allowed = model_.tolerance(measured.place);
  measured.excess = model_.excess(apart, measured.allowed);
  measured.strength = counts ? measured.excess : 0;
  if (measured.strength < 1 && measured.strength > walk_.closest.value)
    walk_.closest = {measured.strength, name()};
  if (observer_) observer_({name(), apart, measured.strength, explain(measured)});
  return measured;
}

Finding& Findings::add(FindingKind kind, Phase phase, std::string name, Clause because) {
  if (walk_.findings.size() > most_) walk_.findings.pop_back();
  Finding& finding = walk_.findings.emplace_back();
  finding.kind = kind;
  finding.phase = phase;
  finding.order = ++order_;
  finding.name = std::move(name);
  finding.because = {std::move(because)};
  finding.distance = metrics::Distance::unmeasurable();
  return finding;
}

Finding& Findings::add(FindingKind kind, Phase phase, std::string name, Clause because,
                       const Measured& measured) {
  Finding& finding = add(kind, phase, std::move(name), std::move(because));
  finding.distance = measured.apart;
  finding.strength = std::max(measured.strength, measured.later);
  finding.counts_later = measured.strength < 1 && measured.later >= 1;
  finding.explained = measured.allowed.magnitude;
  finding.explanation = explain(measured);
  finding.exact_before =
      std::ranges::all_of(measured.place.sources, [](const Source& one) { return one.distance.equal; });
  return finding;
}

Finding& Findings::add_values(FindingKind kind, Phase phase, std::string name, Reason reason,
                              std::vector<std::string> about, std::string ours, std::string theirs) {
  about.insert(about.end(), {ours, theirs});
  Finding& finding = add(kind, phase, std::move(name), {reason, std::move(about)});
  finding.target_value = std::move(ours);
  finding.reference_value = std::move(theirs);
  return finding;
}

void Findings::add_counts(Phase phase, const std::string& name, const std::string& what, std::size_t ours,
                          std::size_t theirs) {
  if (ours == theirs) return;
  add_values(ours > theirs ? FindingKind::kExtraCall : FindingKind::kMissingCall, phase, name,
             Reason::kCounts, {what}, std::to_string(ours), std::to_string(theirs));
}

void Findings::sort() {
  if (walk_.findings.size() > most_) walk_.findings.pop_back();
  std::ranges::stable_sort(walk_.findings, {}, &Finding::place);
}

}  // namespace msprobe::verdict

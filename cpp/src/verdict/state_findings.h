// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Places of the training state, and what is found at them.

#include <string>
#include <vector>

#include "verdict/explain.h"
#include "verdict/place.h"
#include "verdict/state_entry.h"

namespace msprobe::verdict {

// ---- places

/// Of the origin, until somebody says more of it.
Place place_of(const EntryPair& entry);
/// One that a call of this class made of these.
Place made_of(const EntryPair& entry, operators::Gain gain, std::vector<Source> sources);
/// What it is made of cannot be compared.
Place unknown(const EntryPair& entry);
/// By all calls of a step, which are not seen one by one, where they are off by so much.
Place through_all(const EntryPair& entry, double error);

// ---- findings

class StateFindings {
 public:
  StateFindings(const Model& model, compare::StepWalk& walk, const Observer& observer)
      : model_(model), walk_(walk), observer_(observer) {}

  compare::Finding& add(compare::FindingKind kind, compare::Phase phase, std::string name,
                        compare::Clause because);
  /// The two values stand behind `about` in the sentence.
  compare::Finding& add_values(compare::FindingKind kind, compare::Phase phase, std::string name,
                               compare::Reason reason, std::vector<std::string> about,
                               const trace::Json& ours, const trace::Json& theirs);
  /// Nothing where the numbers are equal.
  void add_counts(compare::Phase phase, const std::string& name, const std::string& what, std::size_t ours,
                  std::size_t theirs);
  /// A tensor that is farther off than it may be; null where it is not.
  compare::Finding* judge(compare::FindingKind kind, compare::Phase phase, const EntryPair& entry,
                          const metrics::Distance& apart, const Place& place, compare::Clause because);

 private:
  const Model& model_;
  compare::StepWalk& walk_;
  const Observer& observer_;
  double order_ = 0;
};

/// Calls visit(name, ours, theirs) for what differs of two values, entry by entry of objects.
template <typename Visit>
void for_each_differing(const trace::Json& ours, const trace::Json& theirs, const std::string& name,
                        const Visit& visit) {
  if (!ours.is_object() || !theirs.is_object()) {
    if (!(ours == theirs)) visit(name, ours, theirs);
    return;
  }
  const std::string prefix = name.empty() ? "" : name + ".";
  for (const std::string& key : ours.keys()) {
    if (!(ours[key] == theirs[key])) visit(prefix + key, ours[key], theirs[key]);
  }
  for (const std::string& key : theirs.keys()) {
    if (ours.find(key) == nullptr && !theirs[key].is_null()) visit(prefix + key, ours[key], theirs[key]);
  }
}

}  // namespace msprobe::verdict

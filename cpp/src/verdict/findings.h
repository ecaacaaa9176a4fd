// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What is found in a step, among its calls and in its training state: each place that differs is measured
/// here, and what is found is told in one form.

#include <functional>
#include <string>
#include <vector>

#include "verdict/explain.h"
#include "verdict/place.h"

namespace msprobe::verdict {

using compare::Clause;
using compare::Finding;
using compare::FindingKind;
using compare::Phase;
using compare::Reason;
using compare::StepWalk;

/// A bound against hostile files: findings of the calls of a step, and of its training state.
constexpr std::size_t kMostFindings = 20000;

/// A place that differs: how far off it is, and by how much that is beyond its tolerance.
struct Measured {
  metrics::Distance apart;
  Place place;
  Tolerance allowed;
  bool counts = true;   // something comes of it
  double excess = 0;    // 1 and more is beyond the tolerance, whatever comes of it
  double strength = 0;  // the same of what counts: 1 and more is suspect
  double later = 0;     // the same, where something may come of it in a later step
};

class Findings {
 public:
  /// Adds to `walk`. `source_name`: of a source of a place by its row.
  Findings(const Model& model, StepWalk& walk, const Observer& observer,
           std::function<std::string(std::uint32_t)> source_name = nullptr)
      : model_(model),
        walk_(walk),
        observer_(observer),
        source_name_(std::move(source_name)),
        most_(walk.findings.size() + kMostFindings) {}

  /// Adds no finding. `counts`: false of what nothing comes of. `name`: asked for where it is needed.
  Measured measure(Place place, const metrics::Distance& apart, bool counts,
                   const std::function<std::string()>& name);

  /// What has no distance. Where there are too many, the last one is replaced.
  Finding& add(FindingKind kind, Phase phase, std::string name, Clause because);
  Finding& add(FindingKind kind, Phase phase, std::string name, Clause because, const Measured& measured);
  /// The two values stand behind `about` in the sentence.
  Finding& add_values(FindingKind kind, Phase phase, std::string name, Reason reason,
                      std::vector<std::string> about, std::string ours, std::string theirs);
  /// Nothing where the numbers are equal.
  void add_counts(Phase phase, const std::string& name, const std::string& what, std::size_t ours,
                  std::size_t theirs);
  const Model& model() const noexcept { return model_; }
  /// In the order of execution.
  void sort();

 private:
  compare::Explanation explain(const Measured& measured) const;

  const Model& model_;
  StepWalk& walk_;
  const Observer& observer_;
  std::function<std::string(std::uint32_t)> source_name_;
  std::size_t most_;
  double order_ = 0;
};

}  // namespace msprobe::verdict

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How a verdict comes about. For each step and rank, walk_step() goes over the calls and the training state
/// of both runs in the order in which a step runs, and finds the places where they differ by more than what
/// led there explains. judge() chooses among the findings of all steps and ranks (docs/verdict.md).

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "msprobe/compare.h"
#include "msprobe/export.h"
#include "msprobe/known_values.h"
#include "msprobe/verdict.h"

namespace msprobe::compare {

/// The largest of the distances of a kind, and where.
struct Largest {
  double value = 0;  // relative L2 distance
  std::string name;  // of the item
};

/// What a walk over one step of one rank found, in the order of execution.
struct StepWalk {
  int step = 0;
  int rank = 0;
  std::vector<Finding> findings;
  std::uint64_t compared = 0;   // records with tensors on both sides
  std::uint64_t equal = 0;      // of these, all results equal
  std::uint64_t differing = 0;  // values that differ: rows, and entries of the training state
  std::uint64_t unseen = 0;     // rows of which nothing but NaN or infinities is known
  Largest largest;              // of results of the forward pass
  Largest largest_gradient;     // of gradients of parameters
  /// The largest part of what is allowed, of all that is no finding: 1 would be one.
  Largest closest;
  bool has_state = false;
  /// The optimizer got the gradients of the reference, but for rounding: all of them were compared.
  bool gradients_agree = false;
  /// The model is called another number of times: the calls of the two runs are not of the same data.
  bool divided_otherwise = false;
  double unit = 0;  // the coarsest unit roundoff of what the reference computes
  /// In the first step results are farther off than any number of roundings explains: between these two.
  std::string last_agreeing, first_differing;
  /// The first tensor of another shape or dtype, or with values that have little in common with those of the
  /// reference.
  std::string stranger;

  /// What the next step of the rank begins with: how far off the optimizer left what it updated, and as L2
  /// norms by name.
  KnownValues updated;
  std::map<std::string, double, std::less<>> left_behind;
  double noise = 0;  // the largest finite distance of a result
  /// Parameters of the reference as this step began with them, where no training state has them.
  std::map<std::string, metrics::TensorFacts, std::less<>> parameters;

  bool all_equal() const noexcept { return differing == 0; }
};

/// For files that have no more than statistics of what goes in and comes out: beyond so many unit roundoffs a
/// result is suspect whose inputs are off by `entered` of them.
MSPROBE_API double limit_of_rounding(double entered);

/// How far the two items of each row are apart: one entry for each of `pair.matches.pairs`. `metrics` is
/// empty unless the mode is kRealData. `threads`: 0 = all cores.
MSPROBE_API std::vector<Distance> distances(const DumpPair& pair, const std::vector<RealMetrics>& metrics,
                                            unsigned threads = 0);

/// Walks over one step of one rank: over the calls, and over the training state where both runs have it.
/// `distances`: what distances() found. `before`: of the step before, null for the first; without it nothing
/// explains a difference at the beginning of a step. At most 20000 findings are kept.
MSPROBE_API StepWalk walk_step(const DumpPair& pair, const std::vector<RealMetrics>& metrics,
                               const std::vector<Distance>& distances, int step, int rank,
                               const StepWalk* before);

/// What two runs of the same program are known to differ by, from runs of the reference that were repeated or
/// disturbed: a place has to be farther off than three times what they show there.
class MSPROBE_API KnownNoise {
 public:
  void add(const std::vector<StepWalk>& run);
  /// A call is known to make so many roundings of one ("Torch.sub.3.forward"), as a perturbed training shows
  /// it: a place there has to be farther off than that many times what is explained.
  void add_amplification(const std::string& record, double amplification);
  bool empty() const noexcept { return seen_.empty() && amplification_.empty(); }
  /// The largest strength of a finding at this place; 0: none.
  double strength(const Finding& finding) const;

 private:
  std::map<std::string, double, std::less<>> seen_;
  std::map<std::string, double, std::less<>> amplification_;
};

/// The verdict over all steps and ranks; `walks` in any order. `noise`: null: none is known.
MSPROBE_API Verdict judge(const std::vector<StepWalk>& walks, const KnownNoise* noise = nullptr);

}  // namespace msprobe::compare

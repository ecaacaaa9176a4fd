// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How a verdict comes about. For each step and rank, walk_step() goes over the calls and the training state
/// of both runs in the order in which a step runs, and finds the places where they differ by more than what
/// led there explains. judge() chooses among the findings of all steps and ranks (docs/verdict.md).

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/dump_pair.h"
#include "msprobe/export.h"
#include "msprobe/known_values.h"
#include "msprobe/verdict.h"

namespace msprobe::compare {

using trace::DumpPair;
using trace::RealMetrics;

/// The largest of the distances of a kind, and where.
struct Largest {
  double value = 0;  // relative L2 distance
  std::string name;  // of the item
};

/// A place that was looked at: how far off it is, by how much that is beyond its tolerance, and the sum.
struct Judged {
  std::string name;
  metrics::Distance distance;
  double excess = 0;  // 1 and more is suspect
  Explanation explanation;
};

/// What an optimizer left behind: how far off it was (relative L2 distance), and what made the step. 1:
/// anything.
struct Left {
  double error = 0;
  double error_of_step = 0;
};

/// Key of StepWalk::given: all that is sent from one rank to another, as no record of it has a name there. No
/// parameter and no record is called so.
inline constexpr std::string_view kSent = "what is sent";

/// What a walk over one step of one rank found, in the order of execution.
struct StepWalk {
  int step = 0;
  int rank = 0;
  std::vector<Finding> findings;
  std::uint64_t compared = 0;  // records with tensors on both sides
  std::uint64_t equal = 0;     // of these, all results equal
  /// Values that differ: rows, and entries of the training state. What one run has alone is a finding, and
  /// no value that differs.
  std::uint64_t differing = 0;
  std::uint64_t unseen = 0;  // rows that differ by nobody knows how much: NaN, infinities, checksums alone
  Largest largest;           // of results of the forward pass
  Largest largest_gradient;  // of gradients of parameters
  /// The largest part of what is allowed, of all that is no finding: 1 would be one.
  Largest closest;
  bool has_state = false;
  bool has_gradients = false;  // as a backward pass left them, in the training state
  /// The largest distance of a loss, or of a gradient that the optimizer gets, where it gets those of the
  /// reference but for rounding; infinite where it does not, or not all were compared.
  double arriving = std::numeric_limits<double>::infinity();
  double before_clipping = 0;  // the largest distance of a gradient that is clipped
  bool losses_agree = false;   // but for what a mean rounds
  /// The model is called another number of times: the calls of the two runs are not of the same data.
  bool divided_otherwise = false;
  /// What the target calls parameters, buffers and modules of the reference that have another name there.
  std::map<std::string, std::string> other_names;
  double unit = 0;  // the coarsest unit roundoff of what the reference computes
  /// In the first step results are farther off than any number of roundings explains: between these two.
  std::string last_agreeing, first_differing;
  /// The first tensor of another shape or dtype, or with values that have little in common with those of the
  /// reference.
  Because stranger;

  /// How far off is what this rank gives to others, L2, and no part of it: to a collective by the name of its
  /// record, and gradients by the names of the parameters.
  std::map<std::string, double> given;

  /// What the next step of the rank begins with: how far off the optimizer left what it updated, by value,
  /// and by name.
  KnownValues updated;
  std::map<std::string, Left, std::less<>> left;
  double noise = 0;  // the largest finite distance of a result
  /// Parameters of the reference as this step began with them.
  std::map<std::string, metrics::TensorFacts, std::less<>> parameters;

  bool gradients_agree() const noexcept { return arriving < std::numeric_limits<double>::infinity(); }
  bool all_equal() const noexcept { return differing == 0 && (compared > 0 || findings.empty()); }
  /// Gives back what only the next step of the rank needs. Of many ranks it is most of the memory.
  void forget_state() {
    updated = {};
    left.clear();
    parameters.clear();
  }
};

/// For files that have no more than how far off is what goes in and comes out of calls, in machine epsilons:
/// beyond so many a result is suspect whose inputs are off by `entered` of them.
MSPROBE_API double opaque_limit(double entered);

/// A node of such a file. Distances in machine epsilons; 0: equal, or not known.
struct NodeDistances {
  std::int64_t place = 0;         // in the order of execution; a module stands behind what is inside of it
  std::int64_t first_inside = 0;  // the first place inside of it; its own where there is none
  std::int64_t parent = -1;       // place of the module around
  double inputs = 0, weights = 0, gradients = 0, outputs = 0;
};

struct SuspectNode {
  std::int64_t place = 0;
  std::string_view kind;  // "output", "weight", "input", "gradient"
  double value = 0;
  double before = 0;  // what goes in is off by
};

/// The nodes that are farther off than what goes into them explains, at most 50, in the order of execution.
MSPROBE_API std::vector<SuspectNode> suspects_of_nodes(const std::vector<NodeDistances>& nodes);

/// How far the two items of each row are apart: one entry for each of `pair.matches.pairs`. `metrics` is
/// empty unless the mode is kRealData. `threads`: 0 = all cores.
MSPROBE_API std::vector<Distance> distances(const DumpPair& pair, const std::vector<RealMetrics>& metrics,
                                            unsigned threads = 0);

/// Another model: numbers of the verdict by their names, and rules, where 0 is off. It is for the command
/// that asks what each decides. A name that is not there throws InvalidArgument.
using ModelChanges = std::map<std::string, double, std::less<>>;

/// Walks over one step of one rank: over the calls, and over the training state where both runs have it.
/// `distances`: what distances() found. `before`: of the step before, null for the first; without it nothing
/// explains a difference at the beginning of a step. At most 20000 findings of the calls are kept, and as
/// many of the training state. `observer` is given every place that differs and has a distance, in the order
/// in which they are looked at.
MSPROBE_API StepWalk walk_step(const DumpPair& pair, const std::vector<RealMetrics>& metrics,
                               const std::vector<Distance>& distances, int step, int rank,
                               const StepWalk* before,
                               const std::function<void(const Judged&)>& observer = nullptr,
                               const ModelChanges& changes = {});

/// What two runs of the same program are known to differ by, from runs of the reference that were repeated or
/// disturbed: a place has to be farther off than three times what they show there.
class MSPROBE_API KnownNoise {
 public:
  void add(std::span<const StepWalk* const> run);
  /// A call is known to make so many roundings of one ("Torch.sub.3.forward"), as a perturbed training shows
  /// it: a place there has to be farther off than that many times what is explained.
  void add_amplification(const std::string& record, double amplification);
  bool empty() const noexcept { return seen_.empty() && amplification_.empty(); }
  /// The largest strength of a finding at this place; 0: none. `suspect`: the number of the verdict.
  double strength(const Finding& finding, double suspect) const;

 private:
  std::map<std::string, double, std::less<>> seen_;
  std::map<std::string, double, std::less<>> amplification_;
};

/// A number that the verdict decides by, and where it comes from.
struct VerdictNumber {
  std::string_view name;
  double value = 0;
  std::string_view source;
};
MSPROBE_API std::vector<VerdictNumber> verdict_numbers();
/// The rules that can be switched off: name, what it says.
MSPROBE_API std::vector<std::array<std::string_view, 2>> verdict_switches();
/// The rules as people read of them: name, what for, tolerance.
MSPROBE_API std::vector<std::array<std::string_view, 3>> verdict_rules();
/// The verdict over all steps and ranks; `walks` in any order. `noise`: null: none is known.
MSPROBE_API Verdict judge(std::span<const StepWalk* const> walks, const KnownNoise* noise = nullptr,
                          const ModelChanges& changes = {});

}  // namespace msprobe::compare

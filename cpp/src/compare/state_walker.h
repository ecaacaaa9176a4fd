// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "compare/rounding_model.h"
#include "compare/rows.h"
#include "compare/state_entry.h"
#include "compare/state_walk.h"
#include "msprobe/step_walk.h"

namespace msprobe::compare {

/// Of the gradients of a step, through all its calls, where the calls of the backward pass are not seen one
/// by one.
inline constexpr double kThroughAllCalls = 8;

/// How far off tensors are, by their names.
using Reached = std::map<std::string, metrics::Distance, std::less<>>;

/// The walk over what is known of a training beside its calls. Its parts are in three files: what the step
/// begins with (state_walk.cpp), what becomes of the gradients (state_walk_gradients.cpp), and the optimizer
/// (state_walk_optimizer.cpp).
class StateWalker {
 public:
  using Json = trace::Json;
  using Distance = metrics::Distance;

  StateWalker(const Json& target, const Json& reference, const StepWalk* before, CallWalk& calls)
      : target_(target), reference_(reference), before_(before), calls_(calls) {}

  void run();

 private:
  Finding& add(FindingKind kind, Phase phase, std::string name, std::string reason);
  // A tensor that is farther off than what led to it; nothing where it is not.
  Finding* add_tensor(FindingKind kind, Phase phase, const EntryPair& entry, const Distance& apart,
                      const Allowance& allowed, const std::string& what);
  static void tell_values(Finding& finding, const Json& target, const Json& reference);
  static Allowance rounding(const Json& reference, double times = 1);
  static Allowance plus(const Allowance& a, double high) { return {a.magnitude + high, a.bias + high}; }
  // So many times what went into it. Errors of single elements leave its norm and mean nearly alone.
  static Allowance plus(const Allowance& a, const Distance& led, double times, const Json& reference);

  // Calls visit(name, ours, theirs) for what differs of two values, entry by entry of objects.
  template <typename Visit>
  static void for_each_differing(const Json& ours, const Json& theirs, const std::string& name,
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

  // ---- What the step begins with

  void random_state();
  void inputs();
  void tell_counts(Phase phase, const std::string& name, const std::string& what, std::size_t ours,
                   std::size_t theirs);
  // Tensors and values by name; those that one side has alone. Returns the largest distance that is known.
  template <typename Allowed>
  double named(FindingKind kind, Phase phase, const std::string& what, const Json& ours, const Json& theirs,
               const std::string& prefix, const Allowed& allowed_of);
  void tell_lone(FindingKind kind, Phase phase, const std::string& what, const Json& has, const Json& lacks,
                 const std::string& prefix, const std::string& side);
  void parameters();
  // As the optimizer left it.
  Allowance of_parameter(const EntryPair& entry, const metrics::TensorFacts& facts) const;
  void buffers();
  void modules();
  void setting(const std::string& path, const std::string& name, const Json& ours, const Json& theirs);

  // ---- What becomes of the gradients

  // Tensors of one moment against what the moment before explains.
  template <typename Before>
  Reached stage(FindingKind kind, Phase phase, const std::string& what, const Json& ours, const Json& theirs,
                const Before& before);
  Reached backward();
  // The distance of this gradient where the backward pass made it, if that is recorded and nothing was added
  // to it in the reference.
  const Distance* made_by_calls(const EntryPair& entry) const;
  void note_gradient(const std::string& name, const Distance& apart);
  static double largest_of(const Reached& reached);
  // The moment before, or anything of it where this very tensor is not known.
  static Allowance after(const Reached& reached, const EntryPair& entry);
  void clipping(Reached& reached);
  // Another way to clip is a cause where the optimizer gets other gradients than before the clipping.
  void find_effect_of_clipping(const Json& ours, const Json& theirs);
  void at_optimizer(Reached& reached);
  // Whether all gradients were compared, and are no farther off than a model that is computed once on equal
  // weights and data may be.
  bool agree(const Reached& compared, const Json& ours, const Json& theirs) const;

  // ---- The optimizer

  void optimizer(const Reached& gradients);
  // Where one of the runs steps by the rule of its optimizer, and the other does not.
  void rule(const Json& ours, const Json& theirs);
  // False when a setting differs that changes what is computed.
  bool optimizer_settings(const Json& ours, const Json& theirs);
  // States by their names, "{parameter}.{state}"; `allowed_of` is given the parameter.
  template <typename Allowed>
  Reached states(const Json& ours, const Json& theirs, std::string_view moment, Phase phase,
                 const Allowed& allowed_of);
  Allowance of_state(const std::string& /*parameter*/, const EntryPair& entry) const;
  // Squares double a relative error.
  static Allowance of_update(const std::string& parameter, const EntryPair& entry, const Reached& before,
                             const Reached& gradients);
  // How far off, as L2 norms, the parameters may be after this step.
  void leave_parameters(const Json& step, const Reached& gradients, const Reached& states,
                        bool same_settings);

  const Json& target_;
  const Json& reference_;
  const StepWalk* before_;
  CallWalk& calls_;
  double order_ = 0;
  double apart_at_start_ = 0;                  // of parameters
  Reached before_clipping_;                    // the gradients
  std::vector<std::size_t> ways_of_clipping_;  // findings
};

}  // namespace msprobe::compare

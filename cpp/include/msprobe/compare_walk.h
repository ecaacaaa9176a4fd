// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A walk over two dumps in the order in which the calls ran: where does a difference come into being, where
/// is it only passed on?

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/compare.h"
#include "msprobe/export.h"

namespace msprobe::compare {

using trace::Distance;

enum class EventKind : std::uint8_t {
  kOutput,    // a result that differs more than what went in
  kArgument,  // a flag or number that was passed differs
  kInput,     // a tensor comes in that differs more than anything before
  kExtra,     // a call that only the left run has
  kMissing,   // a call that only the right run has
  kGradient   // the gradient of a parameter differs more than what it is made of
};

/// Something that may be where a difference begins.
struct Event {
  EventKind kind = EventKind::kOutput;
  bool is_backward = false;
  std::uint32_t order = 0;  // rises in the order of execution; calls of one order belong together
  std::string name;         // of the record, in the left run (kMissing: in the right run)
  std::string item;         // argument or result that differs most, as in the result table; may be empty
  std::string module;       // call of the module it ran in; empty: none or unknown
  std::string parameter;    // kInput: the module's parameter that has this value, e.g. "weight"; empty: none
  std::string left_text;    // kArgument: the two values
  std::string right_text;
  double in = 0;             // ulps of what went in; for backward also of the forward call
  double out = 0;            // ulps of what came out (kInput, kGradient: of the item itself)
  bool in_is_equal = false;  // nothing that went in differs
  /// kOutput: an earlier call of the same operator, with equal shapes and equal values going in, had an equal
  /// result: so the two runs do not just have other kernels.
  bool equal_before = false;
  double reduction =
      1;  // kOutput, kGradient: about how many products or terms each element of the result sums
  /// kArgument, kInput, kExtra, kMissing: ulps of what comes of it, the call's own result or that of the
  /// module around it. Infinite where that cannot be seen.
  double effect = 0;
};

/// A module's call whose result differs.
struct ModuleDifference {
  std::string name;  // of the record
  double out = 0;    // ulps
};

/// A tensor as the optimizer has left it: extremes in the right run, by which the parameter is known in the
/// next step, and its distance.
struct UpdatedTensor {
  double min = 0;
  double max = 0;
  double ulps = 0;
};

/// What the walk saw, for deciding what is rounding and what is not.
struct Walk {
  std::vector<Event> events;              // in order of execution
  std::uint32_t compared = 0;             // records with tensors of floating point on both sides
  std::uint32_t equal = 0;                // of these, all results equal
  double median = 0;                      // ulps of results that differ; 0: none does
  double largest = 0;                     // finite; without clipping and the optimizer
  std::vector<UpdatedTensor> updated;     // results of calls in the optimizer, in order of execution
  std::vector<ModuleDifference> modules;  // those whose result differs, in order of execution
};

/// How far the two items of each row are apart: one entry for each of `pair.matches.pairs`. `metrics` is
/// empty unless the mode is kRealData. `threads`: 0 = all cores.
MSPROBE_API std::vector<Distance> distances(const DumpPair& pair, const std::vector<RealMetrics>& metrics,
                                            unsigned threads = 0);

/// Walks over all records. At most 20000 events are kept. `metrics` is empty unless the mode is kRealData;
/// `distances`: what distances() found.
MSPROBE_API Walk walk(const DumpPair& pair, const std::vector<RealMetrics>& metrics,
                      const std::vector<Distance>& distances);

}  // namespace msprobe::compare

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/model.h"

#include <algorithm>
#include <string>

#include "msprobe/error.h"

namespace msprobe::verdict {
namespace {

/// A rule, as people read of it.
struct RuleRow {
  std::string_view id;
  std::string_view place;      // what it is for
  std::string_view tolerance;  // what such a place may be off by
};

constexpr std::array kRuleRows{
    RuleRow{"R1 same value",
            "a tensor that is another place, by its value: an argument that an earlier call returned, a "
            "gradient as the backward pass left it, a parameter as the optimizer left it",
            "as much as that place; one rounding more where it was scaled on the way"},
    RuleRow{"R2 operator", "a result of one call of the catalogue of operators",
            "sum over sources of gain x distance, and (`own` + `sum` x sqrt(terms)) x u x cancellation. "
            "Terms that are one number, as a pooling's gradient over an image, are all rounded in one "
            "direction: a sum over n of them, k alike, is off by sqrt(n k) roundings in place of sqrt(n), "
            "and what a normalisation takes out of each element by k. What goes into a normalisation y(x) is "
            "off by a part of all of x, and its gradient is divided by the size of each channel: where small "
            "ones have most of it, it is off by (dx / dy) (x / y) times more, in norms"},
    RuleRow{"R3 opaque",
            "what several calls made of which only the ends are seen: a module whose inside is not "
            "recorded, calls of one run, a whole backward pass (twice)",
            "`opaque` x (the largest distance of what goes in + `own` x u)"},
    RuleRow{"R4 origin", "data, and weights before the first step",
            "`own` x u: they are read, and rounded once"},
    RuleRow{"R5 discrete", "integers, flags, and elements beyond a jump of a derivative",
            "sqrt(e): an error e takes a share e of the elements to the other side"},
    RuleRow{"R6 update", "what an optimizer moved, and its states that hold steps and no gradients",
            "two steps of each element at most: elements whose gradient is 0 but "
            "for rounding move in any direction. How long a step is, is known from the reference; of equal "
            "weights, gradients, states and settings it is the same"},
    RuleRow{"R7 negligible", "gradients and states",
            "measured against `negligible` of the typical one of all parameters at least"},
    RuleRow{
        "R8 no distance", "a setting, an argument, a call of one run, another shape",
        "suspect when the first place behind it that has a distance is. Of another number, word or flag that "
        "goes in with tensors that are equal to the bit, every difference is its own, and it is a cause "
        "where no other call makes another result of equal tensors. What calls of one run make of a value "
        "that the other run hands on as it is, is measured in that run"}};

}  // namespace

Model Model::with(const compare::ModelChanges& changes) {
  Model model;
  for (const auto& [changed, value] : changes) {
    bool is_known = false;
#define NUMBER(name, initial, source) \
  if (changed == #name) is_known = true, model.name = value;
#define RULE(name, says) \
  if (changed == #name) is_known = true, model.name = value != 0;
#include "verdict/model.inc"
    if (!is_known) throw InvalidArgument("there is no number and no rule \"" + changed + "\" in the verdict");
  }
  return model;
}

}  // namespace msprobe::verdict

namespace msprobe::compare {

std::vector<VerdictNumber> verdict_numbers() {
  return {
#define NUMBER(name, value, source) {#name, value, source},
#define RULE(name, says)
#include "verdict/model.inc"
  };
}

std::vector<std::array<std::string_view, 2>> verdict_switches() {
  return {
#define NUMBER(name, value, source)
#define RULE(name, says) {#name, says},
#include "verdict/model.inc"
  };
}

std::vector<std::array<std::string_view, 3>> verdict_rules() {
  std::vector<std::array<std::string_view, 3>> result;
  result.reserve(std::size(verdict::kRuleRows));
  for (const verdict::RuleRow& one : verdict::kRuleRows) result.push_back({one.id, one.place, one.tolerance});
  return result;
}

}  // namespace msprobe::compare

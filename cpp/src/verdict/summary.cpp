// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numbers>

#include "verdict/places_of_calls.h"
#include "verdict/suspects_of_calls.h"

namespace msprobe::verdict {
namespace {

using compare::Reason;

class Summary {
 public:
  Summary(const Calls& calls, bool has_state, compare::StepWalk& walk)
      : calls_(calls), has_state_(has_state), walk_(walk) {}

  void run() {
    if (!has_state_) keep_parameters();
    walk_.unit = calls_.coarsest_unit();
    const ItemPair* largest = nullptr;
    for (const ItemPair& row : calls_.pair().matches.pairs) {
      const bool is_alike = row.reference && calls_.distance(row).equal && !is_of_other_dtype(row);
      if (!is_alike && calls_.is_preparation(row.target_record) &&
          calls_.is_unused(calls_.ours(), row.target_record))
        continue;
      if (walk_.stranger.empty()) walk_.stranger = strange(row);
      if (!row.reference) {
        walk_.differing +=
            row.reason == trace::NoMatchReason::kShape || row.reason == trace::NoMatchReason::kDtype;
        continue;
      }
      if (calls_.says_nothing(row) && !is_input(calls_.item(row).part)) continue;
      const Distance& apart = calls_.distance(row);
      if (!apart.equal || is_of_other_dtype(row)) ++walk_.differing;
      if (calls_.is_mispaired(row.target_record)) continue;
      if (std::isinf(apart.high) && std::isfinite(apart.low)) ++walk_.unseen;
      const std::string_view call = calls_.name(row.target_record);
      const bool is_forward =
          !is_input(calls_.item(row).part) && !is_backward(call) && !trace::holds_gradients(call);
      if (is_forward && std::isfinite(apart.value) && apart.value > walk_.largest.value) {
        walk_.largest = {apart.value, {}};
        largest = &row;
      }
    }
    if (largest != nullptr) walk_.largest.name = calls_.item_name(*largest);
  }

 private:
  // For the next step.
  void keep_parameters() {
    for (const ItemPair& row : calls_.pair().matches.pairs) {
      const Item& item = calls_.item(row);
      if (!row.reference || item.part != Item::Part::kParameters) continue;
      const std::string key =
          CallPlaces::parameter_key(calls_.name(row.target_record), calls_.target().text(item.path));
      metrics::TensorFacts facts = calls_.facts(row);
      facts.checksum = {};  // of a file that may be closed by then
      walk_.parameters.insert_or_assign(key, facts);
      walk_.left[key] = {calls_.distance(row).expected, 1};
    }
  }

  // For a note: another shape or dtype, or another tensor for the larger part: two that have nothing in
  // common are sqrt(2) apart.
  compare::Because strange(const ItemPair& row) const {
    constexpr double kLittleInCommon = std::numbers::sqrt2 / 2;
    const Item& ours = calls_.item(row);
    if (ours.kind != Item::Kind::kTensor || calls_.says_nothing(row)) return {};
    const auto told = [&](Reason reason) { return compare::Because{{reason, {calls_.item_name(row)}}}; };
    if (!row.reference) {
      if (row.reason == trace::NoMatchReason::kShape) return told(Reason::kOtherShape);
      if (row.reason == trace::NoMatchReason::kDtype) return told(Reason::kOtherDtype);
      return {};
    }
    if (calls_.target().text(ours.dtype) != calls_.reference().text(calls_.other_item(row)->dtype))
      return told(Reason::kOtherDtype);
    return calls_.distance(row).low > kLittleInCommon ? told(Reason::kUnrelated) : compare::Because();
  }

  // Equal numbers of another dtype are not the same result. Frameworks name one in other ways.
  bool is_of_other_dtype(const ItemPair& row) const {
    const Item &ours = calls_.item(row), &theirs = *calls_.other_item(row);
    return ours.kind == Item::Kind::kTensor && theirs.kind == Item::Kind::kTensor &&
           ours.element_type() != theirs.element_type();
  }

  const Calls& calls_;
  bool has_state_;
  compare::StepWalk& walk_;
};

}  // namespace

void summarize(const Calls& calls, bool has_state, compare::StepWalk& walk) {
  Summary(calls, has_state, walk).run();
}

}  // namespace msprobe::verdict

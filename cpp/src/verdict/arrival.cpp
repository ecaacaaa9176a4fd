// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/arrival.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "base/non_finite.h"
#include "verdict/expected_errors.h"
#include "verdict/operator_error.h"
#include "verdict/state_entry.h"

namespace msprobe::verdict {

using trace::Json;

namespace {

// A gradient went through it.
bool has_gradients(const Calls& calls, std::uint32_t record) {
  return is_backward(calls.name(record)) || trace::holds_gradients(calls.name(record)) ||
         calls.find(record, trace::Direction::kBackward);
}

// What is farther off is suspect, whatever the model.
double most_of(const Model& model, double unit, double at_start) {
  return std::max(model.suspect * Model::half_of_digits(unit), model.opaque * model.opaque * at_start);
}

}  // namespace

double arriving_gradients(const Calls& calls, const Json& target, const Json& reference) {
  const Model& model = calls.model();
  const auto &ours = target["gradients_at_optimizer"].items(),
             &theirs = reference["gradients_at_optimizer"].items();
  if (ours.empty() || ours.size() != theirs.size()) return kInfinity;
  const double at_start = farthest(common(target["parameters"], reference["parameters"]));
  double largest = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const Json &a = ours[i]["gradients"], &b = theirs[i]["gradients"];
    const auto entries = measured_together(model, common(a, b));
    if (entries.empty() || entries.size() != a.keys().size() || entries.size() != b.keys().size())
      return kInfinity;
    for (const EntryPair& entry : entries) {
      const metrics::Distance apart = entry.apart();
      const double own = entry.facts ? metrics::unit_roundoff(entry.facts->dtype) : 0;
      const double unit = std::max(own, calls.coarsest_unit());
      if (!apart.equal && !(apart.low <= most_of(model, unit, at_start))) return kInfinity;
      largest = std::max(largest, apart.high);
    }
  }
  return largest;
}

// The last forward call of these records that a gradient goes through. What a checkpoint computes again in
// the backward pass is none.
static std::optional<std::uint32_t> last_call(const Run& run, std::uint32_t begin, std::uint32_t end) {
  for (std::uint32_t i = end; i-- > begin;) {
    const bool is_first = !run.trace.records()[i].is_recompute && !trace::holds_gradients(run.name(i));
    if (is_first && run.find(i, trace::Direction::kBackward)) return i;
  }
  return std::nullopt;
}

// What each backward pass of a run begins at: the result of the last such call in front of it. Of several, a
// single number: no other one can do without a gradient that it is given.
static std::vector<ItemIndex> losses(const Run& run) {
  std::vector<ItemIndex> found;
  const auto is_number = [&](ItemIndex item) {
    return trace::element_count(run.trace.text(run.trace.all_items()[item].shape)) == 1;
  };
  std::uint32_t begin = 0;  // behind the last backward call
  for (std::uint32_t i = 0; i < run.trace.records().size(); ++i) {
    if (trace::holds_gradients(run.name(i)) || !is_backward(run.name(i))) continue;
    const auto last = last_call(run, std::exchange(begin, i + 1), i);
    if (!last) continue;
    const Record& record = run.trace.records()[*last];
    std::vector<ItemIndex> results;
    for (ItemIndex item = record.first_item; item < record.first_item + record.item_count; ++item) {
      const Item& one = run.trace.all_items()[item];
      if (one.kind == Item::Kind::kTensor && !is_input(one.part)) results.push_back(item);
    }
    const bool any_number = std::ranges::any_of(results, is_number);
    std::ranges::copy_if(results, std::back_inserter(found),
                         [&](ItemIndex item) { return !any_number || is_number(item); });
  }
  return found;
}

double arriving_losses(const Calls& calls, const compare::StepWalk* before, bool is_exact) {
  const std::vector<ItemIndex> ours = losses(calls.ours()), theirs = losses(calls.theirs());
  // Where one run has more of them, as of a gradient that the other one knows a formula for, the last one is
  // the loss.
  const std::size_t shared =
      ours.size() == theirs.size() ? ours.size() : std::min<std::size_t>({ours.size(), theirs.size(), 1});
  const ExpectedErrors of_ours(calls, calls.ours(), ExpectedErrors::Of::kWholePass),
      of_theirs(calls, calls.theirs(), ExpectedErrors::Of::kWholePass);
  const Earlier earlier{before, 0, {}};
  double largest = 0;
  for (std::size_t i = 1; i <= shared; ++i) {
    const ItemIndex at = ours[ours.size() - i], there = theirs[theirs.size() - i];
    const Item &one = calls.target().all_items()[at], &other = calls.reference().all_items()[there];
    // A pass that begins elsewhere, with a gradient that was made for it: the gradients tell alone.
    if (calls.target().text(one.shape) != calls.reference().text(other.shape)) continue;
    const metrics::Distance apart = trace::distance(calls.target(), one, calls.reference(), &other, nullptr);
    if (is_exact && calls.model().expected_losses && !apart.equal) {
      const double expected = std::max(of_ours.of(at, earlier).error(), of_theirs.of(there, earlier).error());
      if (apart.low > calls.model().suspect * kMargin * expected) return kInfinity;
    }
    largest = std::max(largest, apart.high);
  }
  return largest;
}

double most_of_losses(const Calls& calls) {
  const Model& model = calls.model();
  return model.suspect * std::max(Model::half_of_digits(metrics::unit_roundoff(DType::kFloat32)),
                                  model.own_rounding(calls.coarsest_unit()));
}

Arrival arrival(const Calls& calls, const ItemPair& row, const metrics::Distance& apart, double arriving,
                bool is_first_step) {
  if (!(apart.low > calls.model().suspect * arriving) || !calls.model().arrival) return Arrival::kArrives;
  if (calls.zone(row.target_record) == Zone::kOptimizer) return Arrival::kArrives;  // in the next step
  const Item& item = calls.item(row);
  const std::string_view call = calls.name(row.target_record);
  const bool is_given = is_input(item.part) && !is_backward(call) && !trace::holds_gradients(call);
  if (!(is_given && is_first_step) && has_gradients(calls, row.target_record)) return Arrival::kNowhere;
  if (item.requires_grad.value_or(false)) return Arrival::kNowhere;
  const ItemIndex made = calls.ours().flow().source(row.target);
  if (made != kNoItem && has_gradients(calls, calls.ours().flow().record(made))) return Arrival::kNowhere;
  // Clipping may take away what gradients are off by, where they are reduced or scaled by hand.
  if (calls.is_after_backward(row.target_record) || !calls.model().later) return Arrival::kArrives;
  const bool is_made = made != kNoItem || calls.theirs().flow().source(row.reference.index) != kNoItem;
  const bool is_data =
      is_given && !is_made && !calls.is_taken_elsewhere(row) && !calls.may_be_of_model(row.target_record);
  return is_data ? Arrival::kArrives : Arrival::kLater;
}

}  // namespace msprobe::verdict

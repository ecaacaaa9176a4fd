// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "compare/call_walk.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/non_finite.h"
#include "compare/flow.h"
#include "compare/operators.h"
#include "compare/rounding_model.h"
#include "compare/rows.h"
#include "trace/align.h"
#include "trace/parent_cursor.h"
#include "trace/uninitialised.h"

namespace msprobe::compare {
namespace {

using trace::Item;
using trace::ItemPair;
using trace::kNoMatch;
using trace::Record;
using trace::Trace;
using Part = Item::Part;

constexpr double kUnknown = kNaN;
constexpr std::size_t kMostFindings = 20000;
constexpr int kDeepest = 64;  // modules inside of modules

// What is made of several calls that are not seen one by one (a module at level L0, a part that the other run
// computes by other calls) may be off by this many times what goes in. In the healthy runs of tests/faults a
// single call makes 2 of 1 at most, and several do not make more.
constexpr double kComposite = 3;
constexpr double kOneCall = 2;

// Without modules and without values that can be followed, what comes of a call is looked for in so many of
// the next ones.
constexpr int kCallsToLookAt = 4;

// Arguments that are off by less than this are the same number, computed otherwise.
constexpr double kSameNumber = 8 * 0x1p-24;

// And by more than this, another one: what comes of it may still be hidden by rounding.
constexpr double kAnotherNumber = 1e-3;

// No rounding of one kernel in any dtype makes as much: worth a note.
constexpr double kStranger = 0.25;

// A gradient that is off by more than this part of itself has elements of either sign.
constexpr double kUncertainGradient = 0.05;

enum class Zone : std::uint8_t { kModel, kClipping, kOptimizer };

// Operators of optimizers, for records that do not tell who called.
bool is_update(std::string_view operator_name) {
  static const std::unordered_set<std::string_view> names = {
      "addcdiv_", "addcmul_", "lerp_", "_foreach_addcdiv_", "_foreach_addcmul_", "_foreach_lerp_"};
  const std::size_t dot = operator_name.rfind('.');
  return names.contains(dot == std::string_view::npos ? operator_name : operator_name.substr(dot + 1));
}

// What is in their first argument before does not matter: often it is memory that nobody has written to yet.
bool overwrites_first(std::string_view record) {
  static const std::unordered_set<std::string_view> names = {
      "copy_",   "zero_",        "fill_", "normal_",     "uniform_",   "bernoulli_",
      "random_", "exponential_", "set_",  "log_normal_", "geometric_", "cauchy_"};
  const std::string call = operator_name(record);
  return names.contains(std::string_view(call).substr(call.rfind('.') + 1));
}

// What is known of a record of the target.
struct Seen {
  double high = 0;      // distance of its results at most
  double noise = 0;     // the same, against the terms that they are sums of
  double in_high = 0;   // of what goes in, at most
  double in_value = 0;  // and most likely
  double strength = 0;  // of the result that is farthest beyond what is allowed
  double effect = 0;    // the same by what goes in alone, whatever happens inside of it
  bool has_result = false;
  bool in_is_equal = true;
  bool out_is_equal = true;
};

// Of the calls inside of a module.
struct Inside {
  double high = 0;
  double bias = 0;
  double unit = 0;
};

// Calls that one run has and the other has not, one after the other in one module; named after the outermost
// of them.
struct Alone {
  std::string name;
  std::uint32_t first = 0;  // record
  std::uint32_t count = 0;
  std::uint32_t computing = 0;  // functions of floating point in these calls
  double order = 0;
  bool is_missing = false;
  std::string_view around;  // the module that both runs have
  bool exact_before = true;
  double effect = kUnknown;
  bool is_update = false;  // behind the backward pass, outside of modules
  bool is_looked_at = false;
};

// A finding that waits for its effect, the record that shows it, and how far two numbers are apart: infinite
// for what are no numbers of floating point.
struct Waiting {
  std::size_t finding = 0;
  std::uint32_t record = 0;
  double apart = 0;
};

class CallWalker {
 public:
  CallWalker(const DumpPair& pair, const std::vector<RealMetrics>& metrics,
             const std::vector<Distance>& distances, const StepWalk* before, bool has_state)
      : pair_(pair),
        records_(pair.records),
        metrics_(metrics),
        distances_(distances),
        before_(before),
        has_state_(has_state),
        rows_(pair),
        parents_(pair.target_construct ? &*pair.target_construct : nullptr),
        seen_(pair.target.records().size()),
        differs_(before != nullptr && !before->all_equal()) {
    set_aside_.resize(pair.target.records().size());
    collect_reference_only();
    set_strangers_aside();
    collect_missing();
    negligible_gradient_ = negligible_gradient();
    coarsest_unit_ = coarsest_unit();
    collect_gradients();
  }

  CallWalk run() {
    const auto count = static_cast<std::uint32_t>(pair_.target.records().size());
    for (std::uint32_t i = 0; i < count; ++i) {
      add_missing_before(i);
      note_place(i);
      if (trace::holds_gradients(name(i))) {
        gradients_.push_back(i);
      } else if (!records_.of_target[i]) {
        add_extra(i);
      } else {
        visit(i);
      }
    }
    add_missing_before(count);
    for (const std::uint32_t i : gradients_) visit_gradients(i);
    for (const Waiting& one : waiting_) find_effect(one);
    for (const Waiting& one : rearranged_) find_effect_of_rearranged(one);
    for (const Waiting& one : chosen_) find_effect_of_choice(one);
    for (Alone& alone : alone_) tell(alone);
    summarize();
    return std::move(result_);
  }

 private:
  std::string_view name(std::uint32_t record) const {
    return pair_.target.name(pair_.target.records()[record]);
  }
  std::string_view reference_name(std::uint32_t record) const {
    return pair_.reference.name(pair_.reference.records()[record]);
  }
  const Distance& distance_of(const ItemPair& row) const { return distances_[rows_.index(row)]; }
  Distance distance_of(const ItemPair& row, double floor) const {
    const Distance& found = distance_of(row);
    if (floor == 0 || found.equal) return found;
    return trace::distance(pair_.target, pair_.target_item(row), pair_.reference, pair_.reference_item(row),
                           metrics_.empty() ? nullptr : &metrics_[rows_.index(row)], floor);
  }
  std::string item_name(const ItemPair& row) const {
    return trace::item_name(pair_.target, row.target_record, row.target);
  }
  const Flow& target_flow() {
    if (!target_flow_) target_flow_.emplace(pair_.target);
    return *target_flow_;
  }
  const Flow& reference_flow() {
    if (!reference_flow_) reference_flow_.emplace(pair_.reference);
    return *reference_flow_;
  }

  Finding& add(FindingKind kind, std::uint32_t record) {
    auto& findings = result_.walk.findings;
    Finding& finding = findings.size() == kMostFindings ? discarded_ : findings.emplace_back();
    finding = {};
    finding.kind = kind;
    finding.name = name(record);
    finding.record = finding.name;
    finding.order = record;
    finding.module = module_path(parent_of(record));
    finding.operator_name = operator_name(finding.name);
    const Zone zone = zone_of(record);
    finding.phase = zone == Zone::kOptimizer  ? Phase::kUpdate
                    : zone == Zone::kClipping ? Phase::kClipping
                                              : Phase::kCalls;
    finding.exact_before = !differs_;
    return finding;
  }

  std::string_view parent_of(std::uint32_t record) { return parents_.parent(name(record)); }
  Zone zone_of(std::uint32_t record) {
    const std::string_view around = parent_of(record);
    if (around == "optimizer" || (around.empty() && is_update(operator_name(name(record)))))
      return Zone::kOptimizer;
    return around == "clip_grad" ? Zone::kClipping : Zone::kModel;
  }

  // Behind the backward pass calls outside of modules are those of clipping and the optimizer.
  void note_place(std::uint32_t record) {
    if (is_backward(name(record))) {
      is_after_backward_ = true;
    } else if (is_module(name(record)) || is_module(parent_of(record))) {
      is_after_backward_ = false;
    }
  }

  // ---- Calls of one side only

  void collect_missing() {
    const auto& of_reference = records_.of_reference;
    std::uint32_t before = 0;
    for (std::uint32_t i = 0; i < of_reference.size(); ++i) {
      if (!of_reference[i]) {
        missing_.emplace_back(before, i);
      } else if (!trace::holds_gradients(reference_name(i))) {
        before = of_reference[i].index + 1;
      }
    }
    std::stable_sort(missing_.begin(), missing_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
  }

  // What the optimizer begins with is found by its value.
  void collect_gradients() {
    for (const ItemPair& row : pair_.matches.pairs) {
      if (!row.reference || !trace::holds_gradients(name(row.target_record))) continue;
      const Distance& apart = distance_of(row);
      if (std::isfinite(apart.high)) largest_gradient_ = std::max(largest_gradient_, apart.high);
      if (const auto key = key_of_updated(*pair_.reference_item(row))) gradient_of_[*key] = &apart;
    }
  }

  // Where a module computes the same by other calls, some of one run may be paired with others of the same
  // name that do something else. They tell by their shapes, and count as calls of one run only.
  void set_strangers_aside() {
    std::unordered_set<std::string_view> other_calls;  // modules with calls of one run only
    const auto collect = [&](const Trace& trace, const std::vector<trace::Match>& matches,
                             const std::optional<trace::Construct>& construct) {
      for (std::uint32_t i = 0; construct && i < matches.size(); ++i) {
        if (matches[i]) continue;
        const std::string_view around = construct->parent(trace.name(trace.records()[i]));
        if (!around.empty()) other_calls.insert(around);
      }
    };
    collect(pair_.target, records_.of_target, pair_.target_construct);
    collect(pair_.reference, records_.of_reference, pair_.reference_construct);
    for (std::uint32_t i = 0; i < records_.of_target.size(); ++i) {
      if (records_.of_target[i] && is_stranger(i, other_calls)) set_aside(i);
    }
    for (std::uint32_t i = 0; i < records_.of_target.size(); ++i) {  // with its gradients
      if (!records_.of_target[i] || !is_backward(name(i))) continue;
      const auto forward = forward_of(i);
      if (forward && set_aside_[*forward]) set_aside(i);
    }
  }

  bool is_stranger(std::uint32_t record, const std::unordered_set<std::string_view>& other_calls) {
    if (is_module(name(record)) || trace::holds_gradients(name(record))) return false;
    const std::uint32_t other = records_.of_target[record].index;
    const auto has_other_calls = [&](const std::optional<trace::Construct>& construct,
                                     std::string_view call) {
      return construct && other_calls.contains(construct->parent(call));
    };
    const bool is_repeated = pair_.target.records()[record].is_recompute;
    const bool is_moved = records_.of_target[record].how == trace::MatchKind::kMoved;
    if (is_moved && is_repeated != pair_.reference.records()[other].is_recompute) return true;
    if (!is_moved && !has_other_calls(pair_.target_construct, name(record)) &&
        !has_other_calls(pair_.reference_construct, reference_name(other))) {
      return false;
    }
    const auto rows = rows_.of_record(record);
    return reference_only_tensors(record) > 0 ||
           std::any_of(rows.begin(), rows.end(), [&](const ItemPair& row) {
             return pair_.target_item(row).kind == Item::Kind::kTensor && !row.reference &&
                    row.reason == trace::NoMatchReason::kShape;
           });
  }

  void set_aside(std::uint32_t record) {
    set_aside_[record] = true;
    records_.of_reference[records_.of_target[record].index] = {};
    records_.of_target[record] = {};
  }

  // The row of an item, unless its record is set aside.
  std::uint32_t row_of_reference(ItemIndex item) const {
    const std::uint32_t row = rows_.of_reference(item);
    return row == kNoRow || set_aside_[rows_[row].target_record] ? kNoRow : row;
  }
  std::uint32_t row_of_target(ItemIndex item) const {
    const std::uint32_t row = rows_.of_target(item);
    return row == kNoRow || set_aside_[rows_[row].target_record] ? kNoRow : row;
  }

  void collect_reference_only() {
    for (const trace::ReferenceItem& one : pair_.matches.reference_only) {
      if (records_.of_reference[one.record]) reference_only_[one.record].push_back(one.item);
    }
  }

  void add_missing_before(std::uint32_t record) {
    for (; next_missing_ < missing_.size() && missing_[next_missing_].first <= record; ++next_missing_) {
      const auto [before, index] = missing_[next_missing_];
      if (!trace::holds_gradients(reference_name(index))) add_alone(index, before - 0.5, true);
    }
  }
  void add_extra(std::uint32_t record) { add_alone(record, record, false); }

  // The outermost module around a call that the other run has not either, and the first module around that it
  // has.
  struct Place {
    std::string_view outermost;
    std::string_view around;
  };
  Place place_of(std::string_view call, bool is_missing) const {
    const auto& construct = is_missing ? pair_.reference_construct : pair_.target_construct;
    const auto& matches = is_missing ? records_.of_reference : records_.of_target;
    const Trace& trace = is_missing ? pair_.reference : pair_.target;
    Place place{call, {}};
    if (!construct) return place;
    for (int depth = 0; depth < kDeepest; ++depth) {
      const std::string_view parent = construct->parent(place.outermost);
      const auto found = parent.empty() ? std::nullopt : trace.find(parent);
      if (!found || matches[*found]) {
        place.around = parent;
        return place;
      }
      place.outermost = parent;
    }
    return place;
  }

  void add_alone(std::uint32_t record, double order, bool is_missing) {
    const std::string_view call = is_missing ? reference_name(record) : name(record);
    const Place place = place_of(call, is_missing);
    const std::size_t known = is_missing ? last_missing_ : last_extra_;
    const bool goes_on = known != kNoAlone && alone_[known].is_missing == is_missing &&
                         alone_[known].first + alone_[known].count == record &&
                         alone_[known].around == place.around &&
                         is_backward(alone_[known].name) == is_backward(call);
    if (!goes_on && alone_.size() < kMostFindings) {
      Alone alone;
      alone.name = place.outermost;
      alone.first = record;
      alone.order = order;
      alone.is_missing = is_missing;
      alone.around = place.around;
      alone.exact_before = !differs_;
      alone.is_update =
          place.around == "optimizer" || is_update(operator_name(call)) ||
          (is_after_backward_ && place.around.empty() && !is_module(place.outermost) && !is_backward(call));
      (is_missing ? last_missing_ : last_extra_) = alone_.size();
      alone_.push_back(alone);
    }
    const std::size_t now = is_missing ? last_missing_ : last_extra_;
    if (now == kNoAlone) return;
    ++alone_[now].count;
    alone_[now].computing += functions_in(is_missing ? pair_.reference : pair_.target, record);
    (is_missing ? alone_of_reference_ : alone_of_target_)[record] = now;
  }

  void tell(Alone& alone) {
    if (alone.is_update) {
      if (alone.effect < 1) alone.effect = kUnknown;  // what is changed in place leaves no result
    } else {
      alone.effect = effect_of(static_cast<std::size_t>(&alone - alone_.data()));
    }
    auto& findings = result_.walk.findings;
    if (findings.size() >= kMostFindings) return;
    Finding& finding = findings.emplace_back();
    const std::string side = alone.is_missing ? "the reference" : "the target";
    const bool is_collective = alone.name.starts_with("Distributed.");
    finding.kind = is_collective      ? FindingKind::kReduction
                   : alone.is_missing ? FindingKind::kMissingCall
                                      : FindingKind::kExtraCall;
    finding.phase = alone.is_update               ? Phase::kUpdate
                    : alone.around == "clip_grad" ? Phase::kClipping
                                                  : Phase::kCalls;
    finding.order = alone.order;
    finding.name = alone.name;
    finding.module = module_path(alone.around);
    finding.operator_name = operator_name(alone.name);
    finding.record = alone.name;
    finding.is_of_reference = alone.is_missing;
    finding.reason = "only " + side + " calls " + alone.name;
    if (alone.count > 1 && !is_module(alone.name)) {
      const std::uint32_t more = alone.count - 1;
      finding.reason += more == 1 ? " and the call that follows"
                                  : " and the " + std::to_string(more) + " calls that follow";
    }
    finding.distance = {
        .value = kInfinity, .low = kInfinity, .high = kInfinity, .bias = 0, .norm = 0, .equal = false};
    finding.effect = alone.effect;
    finding.exact_before = alone.exact_before;
  }

  // 1 where numbers of floating point come out that are not just moved, 2 where they are sums of products:
  // with those, terms may cancel out.
  std::uint32_t functions_in(const Trace& trace, std::uint32_t record) const {
    const Record& one = trace.records()[record];
    const OperatorTraits traits = traits_of_record(trace.name(one));
    if (is_module(trace.name(one)) || only_moves(traits)) return 0;
    const auto items = trace.items(one);
    const bool computes = std::any_of(items.begin(), items.end(), [&](const Item& item) {
      return !is_input(item.part) && metrics::unit_roundoff(trace::dtype_of(trace.text(item.dtype))) > 0;
    });
    const bool sums = traits.growth == Growth::kProduct || traits.growth == Growth::kAttention ||
                      traits.growth == Growth::kRecurrent;
    return computes ? (sums ? 2 : 1) : 0;
  }

  // What is computed from them; where that are calls of this run only, too, what comes of those. A file may
  // have a longer chain of them than this thread has a stack.
  double effect_of(std::size_t index) {
    struct Looking {
      std::size_t index;
      std::vector<std::size_t> consumers;
      std::size_t next = 0;
      double effect = kUnknown;
    };
    std::vector<Looking> chain;
    const auto begins = [&](std::size_t one) {
      Alone& alone = alone_[one];
      if (!std::isnan(alone.effect) || alone.is_looked_at) return false;
      alone.is_looked_at = true;
      chain.push_back({one, consumers(alone)});
      return true;
    };
    begins(index);
    while (!chain.empty()) {
      Looking& last = chain.back();
      if (last.next < last.consumers.size()) {
        const std::size_t consumer = last.consumers[last.next];
        if (begins(consumer)) continue;
        last.effect = std::fmax(last.effect, alone_[consumer].effect);
        ++last.next;
        continue;
      }
      Alone& alone = alone_[last.index];
      alone.effect =
          std::isnan(last.effect) ? effect_around(alone.around, alone.is_missing, alone.order) : last.effect;
      chain.pop_back();
    }
    return alone_[index].effect;
  }

  // The groups of calls that take a result of these.
  std::vector<std::size_t> consumers(const Alone& alone) {
    const Trace& trace = alone.is_missing ? pair_.reference : pair_.target;
    const Flow& flow = alone.is_missing ? reference_flow() : target_flow();
    const auto& groups = alone.is_missing ? alone_of_reference_ : alone_of_target_;
    std::vector<std::size_t> found;
    for (std::uint32_t i = alone.first; i < alone.first + alone.count; ++i) {
      const Record& one = trace.records()[i];
      for (ItemIndex item = one.first_item; item < one.first_item + one.item_count; ++item) {
        if (is_input(trace.all_items()[item].part)) continue;
        for (ItemIndex next = flow.follower(item); next != kNoItem; next = flow.follower(next)) {
          const auto group = groups.find(flow.record(next));
          if (group == groups.end() || &alone_[group->second] == &alone) continue;
          if (is_input(trace.all_items()[next].part)) found.push_back(group->second);
        }
      }
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }

  // ---- Calls of both sides

  void visit(std::uint32_t record) {
    Seen& seen = seen_[record];
    const auto rows = rows_.of_record(record);
    const auto only = reference_only_.find(records_.of_target[record].index);
    const bool is_alike =
        only == reference_only_.end() && std::all_of(rows.begin(), rows.end(), [&](const ItemPair& row) {
          return row.reference && distance_of(row).equal && distance_of(row).high == 0 &&
                 same_gradient_flag(row);
        });
    if (is_alike) {
      visit_equal(record, rows, seen);
    } else {
      visit_different(record, rows, seen);
    }
    if (!seen.has_result) return;
    ++result_.walk.compared;
    if (seen.out_is_equal) ++result_.walk.equal;
    if (seen.out_is_equal && seen.in_is_equal) equal_records_.push_back(record);
  }

  bool same_gradient_flag(const ItemPair& row) const {
    const Item& ours = pair_.target_item(row);
    const Item* const theirs = pair_.reference_item(row);
    return ours.requires_grad == theirs->requires_grad;
  }

  void visit_equal(std::uint32_t record, std::span<const ItemPair> rows, Seen& seen) {
    seen.has_result = std::any_of(rows.begin(), rows.end(), [&](const ItemPair& row) {
      const Item& item = pair_.target_item(row);
      return !is_input(item.part) && item.kind == Item::Kind::kTensor;
    });
    if (const auto forward = forward_record(record)) {
      seen.in_high = std::max(seen_[*forward].high, seen_[*forward].in_high);
      seen.in_is_equal = seen_[*forward].in_is_equal && seen_[*forward].out_is_equal;
    }
    if (zone_of(record) == Zone::kOptimizer) keep_updated(rows);
  }

  void visit_different(std::uint32_t record, std::span<const ItemPair> rows, Seen& seen) {
    const Zone zone = zone_of(record);
    const double floor = zone == Zone::kClipping ? negligible_gradient_ : 0;
    std::vector<Influence> influences;
    bool knows_inputs = collect_influences(record, rows, false, influences);
    for (const Influence& one : influences) note_input(seen, one);
    if (const auto forward = forward_record(record)) {
      const std::size_t own = influences.size();
      knows_inputs &= collect_influences(*forward, rows_.of_record(*forward), true, influences);
      for (std::size_t i = own; i < influences.size(); ++i) note_input(seen, influences[i]);
    }
    const std::size_t arguments = visit_arguments(record, rows, zone);
    visit_results(record, rows, influences, floor, knows_inputs, arguments, seen);
    if (zone == Zone::kOptimizer) keep_updated(rows);
    note_inside(record, rows, seen);
    differs_ |= !seen.out_is_equal || !seen.in_is_equal;
    if (zone == Zone::kModel && std::isfinite(seen.noise)) noise_ = std::max(noise_, seen.noise);
  }

  static void note_input(Seen& seen, const Influence& one) {
    seen.in_high = std::max(seen.in_high, one.distance.high);
    if (std::isfinite(one.distance.value)) seen.in_value = std::max(seen.in_value, one.distance.value);
    seen.in_is_equal &= one.distance.equal && one.distance.high == 0;
  }

  std::optional<std::uint32_t> forward_of(std::uint32_t record) const {
    std::string forward(name(record));
    const std::size_t at = forward.find(".backward");
    if (at == std::string::npos) return std::nullopt;
    forward.replace(at, 9, ".forward");
    const auto found = pair_.target.find(forward);
    return found ? std::optional(static_cast<std::uint32_t>(*found)) : std::nullopt;
  }
  std::optional<std::uint32_t> forward_record(std::uint32_t record) const {
    const auto forward = forward_of(record);
    return forward && records_.of_target[*forward] ? forward : std::nullopt;
  }

  // False when a tensor goes in that cannot be compared. `is_saved`: of the forward call, of which the
  // results count as well.
  bool collect_influences(std::uint32_t record, std::span<const ItemPair> rows, bool is_saved,
                          std::vector<Influence>& influences) const {
    bool knows_all = true;
    for (const ItemPair& row : rows) {
      const Item& item = pair_.target_item(row);
      if (item.kind != Item::Kind::kTensor || !(is_saved || is_input(item.part))) continue;
      if (is_overwritten(record, item)) continue;
      const Item* const other = pair_.reference_item(row);
      if (other == nullptr) {
        knows_all = false;
        continue;
      }
      influences.push_back(influence_of(row, *other, is_saved));
    }
    return knows_all && reference_only_tensors(record) == 0;
  }

  std::size_t reference_only_tensors(std::uint32_t record) const {
    const auto found = reference_only_.find(records_.of_target[record].index);
    if (found == reference_only_.end()) return 0;
    return static_cast<std::size_t>(
        std::count_if(found->second.begin(), found->second.end(), [&](std::uint32_t i) {
          const Item& item = pair_.reference.all_items()[i];
          return item.kind == Item::Kind::kTensor && is_input(item.part);
        }));
  }

  Influence influence_of(const ItemPair& row, const Item& reference, bool is_saved) const {
    const metrics::TensorFacts facts = trace::facts_of(pair_.reference, reference);
    Influence result;
    result.distance = distance_of(row);
    result.count = std::max(facts.count, 1.0);
    result.typical = facts.typical();
    result.norm = result.typical * std::sqrt(result.count);
    result.largest = facts.largest();
    result.unit = metrics::unit_roundoff(facts.dtype);
    // Flags and indices of equal statistics may be others, once some of them are.
    if (result.unit == 0 && has_flips_ && facts.checksum.empty()) {
      result.distance.high = std::max(result.distance.high, 1.0);
    }
    result.is_saved = is_saved;
    result.is_directed = before_ != nullptr;
    const std::string_view shape = pair_.reference.text(reference.shape);
    const std::size_t last = shape.find_last_of(" [");
    if (last != shape.npos) result.last = trace::element_count(shape.substr(last));
    return result;
  }

  Result result_of(const ItemPair& row, bool backward) const {
    return compare::result_of(trace::facts_of(pair_.reference, *pair_.reference_item(row)), backward);
  }

  bool is_overwritten(std::uint32_t record, const Item& item) const {
    return item.part == Part::kInputArgs && pair_.target.text(item.path) == "0" &&
           overwrites_first(name(record));
  }

  // ---- Arguments. Returns how many settings of the call differ.

  std::size_t visit_arguments(std::uint32_t record, std::span<const ItemPair> rows, Zone zone) {
    std::size_t found = 0;
    if (zone != Zone::kModel && same_tensors_in_other_order(record)) return 0;
    for (const ItemPair& row : rows) {
      const Item& item = pair_.target_item(row);
      if (!is_input(item.part) || is_overwritten(record, item)) continue;
      const Item* const other = pair_.reference_item(row);
      if (other != nullptr && item.requires_grad && other->requires_grad &&
          *item.requires_grad != *other->requires_grad && !is_backward(name(record))) {
        Finding& finding = add_argument(record, item_name(row) + ".requires_grad");
        finding.target_value = *item.requires_grad ? "True" : "False";
        finding.reference_value = *other->requires_grad ? "True" : "False";
        tell_values(finding);
        finding.effect = kInfinity;
      }
      const Distance& apart = distance_of(row);
      if (other != nullptr && apart.equal && apart.high == 0) continue;
      if (item.kind != Item::Kind::kTensor || other == nullptr) {
        if (item.kind == Item::Kind::kNull && other == nullptr) continue;
        if (apart.high < kSameNumber) continue;
        found += add_value(record, item_name(row), show(pair_.target, &item),
                           other != nullptr ? show(pair_.reference, other) : std::string(reason(row.reason)),
                           item.kind == Item::Kind::kTensor, other != nullptr ? apart.value : kInfinity);
        if (item.kind == Item::Kind::kTensor && other == nullptr && is_other_choice(row)) {
          chosen_.push_back(waiting_.back());
          waiting_.pop_back();
          continue;
        }
        // A rate or a coefficient; what it makes of elements next to nothing is no measure.
        if (zone == Zone::kOptimizer && std::isfinite(apart.low) &&
            apart.low > composite(noise_, noise_, 0x1p-24).magnitude) {
          result_.walk.findings.back().effect = kInfinity;
          waiting_.pop_back();
        }
      } else if (!apart.equal) {
        visit_input(record, row, apart);
      }
    }
    const auto only = reference_only_.find(records_.of_target[record].index);
    if (only == reference_only_.end()) return found;
    for (const std::uint32_t index : only->second) {
      const Item& item = pair_.reference.all_items()[index];
      if (!is_input(item.part) || item.kind == Item::Kind::kNull || item.kind == Item::Kind::kTensor)
        continue;
      const std::string place = trace::item_name(pair_.reference, records_.of_target[record].index, index);
      found += add_value(record, place, "nothing", show(pair_.reference, &item), false, kInfinity);
    }
    return found;
  }

  Finding& add_argument(std::uint32_t record, const std::string& item) {
    Finding& finding = add(FindingKind::kArgument, record);
    finding.name = item;
    finding.distance = {
        .value = kInfinity, .low = kInfinity, .high = kInfinity, .bias = 0, .norm = 0, .equal = false};
    return finding;
  }

  static void tell_values(Finding& finding) {
    finding.reason =
        finding.name + " is " + finding.target_value + ", in the reference " + finding.reference_value;
  }

  // Of values, and of tensors without counterpart. The effect shows in the results of the call.
  std::size_t add_value(std::uint32_t record, const std::string& item, std::string ours, std::string theirs,
                        bool is_tensor, double apart) {
    Finding& finding = add_argument(record, item);
    finding.target_value = std::move(ours);
    finding.reference_value = std::move(theirs);
    tell_values(finding);
    if (is_tensor && differs_) finding.exact_before = false;
    waiting_.push_back({finding_number(finding), record, apart});
    return 1;
  }

  std::size_t finding_number(const Finding& finding) const {
    return &finding == &discarded_ ? kNoAlone
                                   : static_cast<std::size_t>(&finding - result_.walk.findings.data());
  }

  // The order inside of a list of tensors, such as those that are clipped together, is of no importance.
  bool same_tensors_in_other_order(std::uint32_t record) const {
    const auto keys_of = [](const Trace& trace, const Record& one) {
      std::vector<std::string_view> shapes;
      for (const Item& item : trace.items(one)) {
        if (item.kind == Item::Kind::kTensor) shapes.push_back(trace.text(item.shape));
      }
      std::sort(shapes.begin(), shapes.end());
      return shapes;
    };
    const Record& ours = pair_.target.records()[record];
    const Record& theirs = pair_.reference.records()[records_.of_target[record].index];
    const bool has_lone_tensor =
        std::any_of(rows_.of_record(record).begin(), rows_.of_record(record).end(), [&](const ItemPair& row) {
          return !row.reference && pair_.target_item(row).kind == Item::Kind::kTensor;
        });
    return has_lone_tensor && keys_of(pair_.target, ours) == keys_of(pair_.reference, theirs);
  }

  // ---- Tensors that come in

  // What a tensor may be off by where it comes in, by where it comes from in the reference.
  struct Explained {
    Allowance allowed;
    ItemIndex source = kNoItem;  // of the reference
    std::size_t alone = kNoAlone;
  };

  Explained explain_input(const ItemPair& row, bool backward) {
    const Item& reference = *pair_.reference_item(row);
    Explained result;
    result.source = reference_flow().source(row.reference.index);
    if (result.source != kNoItem) {
      if (const std::uint32_t known = row_of_reference(result.source); known != kNoRow) {
        const Distance& there = distances_[known];
        const double count = std::max(trace::element_count(pair_.reference.text(reference.shape)), 1.0);
        result.allowed = {there.high, there.bias + there.high / std::sqrt(count), there.value};
        // Two numbers may be the same in the reference, and have been computed apart.
        if (count == 1)
          result.allowed = composite(std::max(noise_, there.high), there.value, unit_of(reference));
        return result;
      }
      const std::uint32_t record = reference_flow().record(result.source);
      if (const auto found = alone_of_reference_.find(record); found != alone_of_reference_.end()) {
        result.alone = found->second;
        const Resolved led = resolved(record);
        result.allowed = through(alone_[found->second], led, std::max(unit_of(reference), coarsest_unit_),
                                 std::max(trace::element_count(pair_.reference.text(reference.shape)), 1.0));
      } else {  // a result that cannot be compared
        result.allowed = {kInfinity, kInfinity};
      }
      return result;
    }
    const bool knows_all = pair_.target.level() != "L0" && !backward && !is_after_backward_;
    double noise = std::max(noise_, before_ != nullptr ? before_->noise : 0);
    const double unit = unit_of(reference);
    if (is_after_backward_) {
      const auto key = key_of_updated(reference);
      const auto gradient = key ? gradient_of_.find(*key) : gradient_of_.end();
      if (gradient != gradient_of_.end()) {
        const Distance& there = *gradient->second;
        result.allowed = {there.high + unit, there.bias + there.high + unit, there.value + unit};
        return result;
      }
      noise = std::max(noise, largest_gradient_);
    }
    if (const auto updated = updated_before(reference)) {
      result.allowed = {*updated + unit, *updated + unit};
    } else if (noise == 0 && knows_all) {
      result.allowed = source_allowance(compare::result_of(trace::facts_of(pair_.reference, reference)));
    } else {
      result.allowed = composite(noise, noise, unit);
    }
    // Integers and flags: data, or chosen by what is not seen here.
    if (unit == 0)
      result.allowed.magnitude = knows_all && !has_flips_ ? 0 : 2 * std::sqrt(std::min(noise, 1.0));
    return result;
  }

  double unit_of(const Item& reference) const {
    return metrics::unit_roundoff(trace::dtype_of(pair_.reference.text(reference.dtype)));
  }

  static Allowance composite(double high, double likely, double unit) {
    const double own = kRoundingModel.own * unit;
    return {kComposite * (high + own), kComposite * (high + own), kComposite * (likely + own)};
  }

  // How far off what goes into calls that only the reference has is, through all of them.
  struct Resolved {
    double high = 0;
    double value = 0;
    double bias = 0;
  };

  // What comes out of calls of one run may be off by. A single one is a call like others, of which the inputs
  // are known.
  static Allowance through(const Alone& alone, const Resolved& led, double unit, double count) {
    if (alone.computing > 1) return composite(led.high, led.value, unit);
    const double own = kRoundingModel.own * unit;
    const double bias = kRoundingModel.bias * unit + own / std::sqrt(count);
    return {kOneCall * led.high + own, kOneCall * led.bias + bias, kOneCall * led.value + own};
  }
  Resolved known(std::uint32_t row) const {
    const Distance& apart = distances_[row];
    const double count = trace::element_count(pair_.reference.text(pair_.reference_item(rows_[row])->shape));
    return {apart.high, apart.value, apart.bias + apart.high / std::sqrt(std::max(count, 1.0))};
  }
  // In the order of the records, as what goes into one comes from those before: a file may have a longer
  // chain of them than this thread has a stack.
  Resolved resolved(std::uint32_t record) {
    while (resolved_.size() <= record) {
      resolved_.push_back(resolve(static_cast<std::uint32_t>(resolved_.size())));
    }
    return resolved_[record];
  }
  Resolved resolve(std::uint32_t record) {
    Resolved led;
    const Record& one = pair_.reference.records()[record];
    for (std::uint32_t i = one.first_item; i < one.first_item + one.item_count; ++i) {
      const Item& item = pair_.reference.all_items()[i];
      if (item.kind != Item::Kind::kTensor || !is_input(item.part)) continue;
      const ItemIndex source = reference_flow().source(i);
      if (source == kNoItem) {  // what an optimizer left behind
        if (before_ == nullptr) continue;
        const double left = updated_before(item).value_or(before_->noise);
        led = {std::max(led.high, left), std::max(led.value, left), std::max(led.bias, left)};
        continue;
      }
      const std::uint32_t row = row_of_reference(source);
      const std::uint32_t maker = reference_flow().record(source);
      if (row == kNoRow && maker >= record) continue;
      const Resolved there = row != kNoRow ? known(row) : resolved_[maker];
      led.high = std::max(led.high, there.high);
      led.bias = std::max(led.bias, there.bias);
      led.value = std::max(led.value, there.value);
    }
    return led;
  }

  void visit_input(std::uint32_t record, const ItemPair& row, const Distance& apart) {
    const bool backward = is_backward(name(record));
    const std::string parameter = backward ? std::string() : parameter_of(record, row);
    if (!parameter.empty()) {
      visit_parameter(record, row, apart, parameter);
      return;
    }
    if (has_state_ && zone_of(record) != Zone::kModel) return;  // told by what is left behind
    const Explained explained = explain_input(row, backward);
    const double strength = beyond(apart, explained.allowed);
    note_closest(strength, row);
    const ItemIndex ours = target_flow().source(row.target);
    if (credit_alone(explained, ours, visible(apart, explained.allowed)) || strength < 1) return;
    if (explained.alone != kNoAlone) return;
    Finding& finding = add_input(record, row, apart, explained.allowed, strength);
    if (explained.source != kNoItem) {
      tell_in_place(finding, row, explained.source, ours);
      if (ours == kNoItem) rearranged_.push_back({finding_number(finding), record, 0});
    } else if (backward) {
      finding.kind = FindingKind::kGradient;
    } else if (!differs_ && noise_ == 0 && record == 0 && !has_state_) {
      finding.kind = FindingKind::kInputData;
      finding.reason = item_name(row) + ", the first that goes into the model, differs";
    }
    if (std::isfinite(apart.high)) noise_ = std::max(noise_, apart.high);
  }

  Finding& add_input(std::uint32_t record, const ItemPair& row, const Distance& apart,
                     const Allowance& allowed, double strength) {
    Finding& finding = add(FindingKind::kArgument, record);
    finding.name = item_name(row);
    finding.distance = apart;
    finding.explained = allowed.magnitude;
    finding.strength = strength;
    finding.reason = finding.name + " differs, and no recorded call made the difference";
    return finding;
  }

  // A difference that comes out of calls which only one run has is theirs.
  bool credit_alone(const Explained& explained, ItemIndex ours, double strength) {
    std::size_t extra = kNoAlone;
    if (ours != kNoItem && row_of_target(ours) == kNoRow) {
      const auto found = alone_of_target_.find(target_flow().record(ours));
      if (found != alone_of_target_.end()) extra = found->second;
    }
    const std::size_t missing = explained.alone;
    const auto is_one_function = [&](std::size_t alone) {
      return alone != kNoAlone && alone_[alone].computing == 1 && !is_backward(alone_[alone].name);
    };
    if (is_one_function(missing) && is_one_function(extra))
      strength *= kRoundingModel.visible / kRoundingModel.visible_of_one;
    if (extra != kNoAlone) credit(extra, strength);
    if (missing != kNoAlone) credit(missing, strength);
    return extra != kNoAlone || missing != kNoAlone;
  }

  // The result of a module is that of the last call inside, which may be of one run only.
  void credit_module(const ItemPair& row, const Distance& apart) {
    const ItemIndex source = reference_flow().source(row.reference.index);
    if (source == kNoItem || !alone_of_reference_.contains(reference_flow().record(source))) return;
    const Explained explained = explain_input(row, false);
    credit_alone(explained, target_flow().source(row.target), visible(apart, explained.allowed));
  }
  void credit(std::size_t alone, double strength) {
    double& effect = alone_[alone].effect;
    effect = std::isnan(effect) ? strength : std::max(effect, strength);
  }

  // A value that the reference has from an earlier place unchanged, and the target has not.
  void tell_in_place(Finding& finding, const ItemPair& row, ItemIndex source, ItemIndex ours) {
    const std::uint32_t known = row_of_reference(source);
    if (known == kNoRow) return;
    const std::string from = item_name(rows_[known]);
    finding.kind = FindingKind::kInPlace;
    finding.reason =
        finding.name + " is " + from + " in the reference; in the target it was changed between the two";
    if (ours == kNoItem) return;
    const std::uint32_t writer = target_flow().record(ours);
    if (writes_in_place(writer)) {
      finding.reason += ", by " + std::string(name(writer));
      finding.record = name(writer);
      finding.operator_name = operator_name(name(writer));
    } else if (writer != row.target_record) {
      finding.kind = FindingKind::kArgument;
      finding.reason = finding.name + " is " + from + " in the reference; in the target it is " +
                       trace::item_name(pair_.target, writer, ours);
    }
  }

  bool writes_in_place(std::uint32_t record) const {
    const std::string call = operator_name(name(record));
    if (call.ends_with('_') && !call.ends_with("__")) return true;
    if (call.find("__i") != std::string::npos && call.ends_with("__")) return true;
    const auto items = pair_.target.items(pair_.target.records()[record]);
    return std::any_of(items.begin(), items.end(),
                       [&](const Item& item) {
                         return is_input(item.part) && pair_.target.text(item.path).ends_with("inplace") &&
                                pair_.target.text(item.value) == "True";
                       }) ||
           has_true_argument(items);
  }
  // relu(x, True)
  bool has_true_argument(std::span<const Item> items) const {
    return std::any_of(items.begin(), items.end(), [&](const Item& item) {
      return item.part == Part::kInputArgs && item.value.kind == trace::Scalar::Kind::kBool &&
             pair_.target.text(item.value) == "True" && pair_.target.text(item.path) == "1";
    });
  }

  void visit_parameter(std::uint32_t record, const ItemPair& row, const Distance& apart,
                       const std::string& parameter) {
    if (has_state_ || zone_of(record) != Zone::kModel) return;
    const Item& reference = *pair_.reference_item(row);
    Allowance allowed = source_allowance(compare::result_of(trace::facts_of(pair_.reference, reference)));
    if (before_ != nullptr) {
      const std::string_view module = is_module(name(record)) ? name(record) : parent_of(record);
      const double high = updated_before(reference).value_or(left_by_gradient(module, parameter));
      allowed = {high + unit_of(reference), high + unit_of(reference)};
    }
    const double strength = beyond(apart, allowed);
    note_closest(strength, row);
    if (strength < 1) return;
    Finding& finding = add_input(record, row, apart, allowed, strength);
    finding.kind = FindingKind::kWeight;
    finding.exact_before = before_ == nullptr || before_->noise == 0;
    finding.reason = "parameter " + parameter + " of " + std::string(parent_of(record)) + " differs";
  }

  // What an optimizer whose calls are not seen may have made of the gradient of this parameter: one that
  // divides by its size makes a full step of what is nothing but rounding.
  double left_by_gradient(std::string_view module, const std::string& parameter) const {
    const auto found = before_->left_behind.find(gradient_key(module, parameter));
    if (found != before_->left_behind.end() && found->second > kUncertainGradient) return kInfinity;
    return kComposite * before_->noise;
  }
  static std::string gradient_key(std::string_view module, std::string_view parameter) {
    return "gradient." + module_path(module) + '.' + std::string(parameter);
  }

  // The parameter of the module around that has this very value: the same statistics in the target.
  std::string parameter_of(std::uint32_t record, const ItemPair& row) {
    const Item& item = pair_.target_item(row);
    if (item.part == Part::kParameters) return std::string(pair_.target.text(item.path));
    const auto module = pair_.target.find(parent_of(record));
    if (!module) return {};
    for (const Item& other : pair_.target.items(pair_.target.records()[*module])) {
      if (other.part == Part::kParameters &&
          pair_.target.text(other.shape) == pair_.target.text(item.shape) &&
          pair_.target.text(other.norm) == pair_.target.text(item.norm) &&
          pair_.target.text(other.mean) == pair_.target.text(item.mean)) {
        return std::string(pair_.target.text(other.path));
      }
    }
    return {};
  }

  // ---- Results

  void visit_results(std::uint32_t record, std::span<const ItemPair> rows,
                     const std::vector<Influence>& influences, double floor, bool knows_inputs,
                     std::size_t arguments, Seen& seen) {
    const std::string_view call = name(record);
    const bool backward = is_backward(call);
    const OperatorTraits traits = traits_of_record(call);
    const ItemPair* worst = nullptr;
    Distance worst_distance;
    Allowance worst_allowed;
    bool is_excluded = false;
    for (const ItemPair& row : rows) {
      const Item& item = pair_.target_item(row);
      if (is_input(item.part)) continue;
      if (!row.reference) {
        if (item.kind == Item::Kind::kTensor && row.reason != trace::NoMatchReason::kDtype &&
            !is_other_choice(row)) {
          seen.effect = kInfinity;
        }
        visit_lone_result(record, row, item, influences, knows_inputs, arguments, traits);
        continue;
      }
      if (item.kind != Item::Kind::kTensor || trace::is_uninitialised(call)) continue;
      seen.has_result = true;
      const Distance apart = distance_of(row, floor);
      seen.high = std::max(seen.high, apart.high);
      seen.out_is_equal &= apart.equal;
      if (is_module(call) && !backward) credit_module(row, apart);
      if (apart.equal) continue;
      const Result result = result_of(row, backward);
      Allowance allowed = allowed_of(record, traits, result, influences, knows_inputs);
      has_flips_ |= result.unit == 0;
      seen.noise = std::max(seen.noise, apart.high / allowed.cancelled);
      double strength = beyond(apart, allowed);
      note_closest(strength, row);
      const bool excluded = !differs_ && seen.in_is_equal && knows_inputs && apart.value >= result.unit &&
                            was_equal_before(record);
      if (excluded) strength = std::max({strength, 1.0, apart.value / std::max(result.unit, 0x1p-53)});
      seen.effect = std::max(
          seen.effect, is_module(call) ? visible(apart, composite(seen.in_high, seen.in_value,
                                                                  std::max(result.unit, coarsest_unit_)))
                                       : visible(apart, allowed));
      if (worst == nullptr || strength > seen.strength) {
        worst = &row;
        worst_distance = apart;
        worst_allowed = allowed;
        is_excluded = excluded;
        seen.strength = std::max(seen.strength, strength);
      }
    }
    if (seen.has_result && !seen.out_is_equal) note_strength(record, std::max(seen.strength, seen.effect));
    if (worst == nullptr || seen.strength < 1 || arguments > 0) return;
    tell_result(record, *worst, worst_distance, worst_allowed, is_excluded, traits, seen);
  }

  OperatorTraits traits_of_record(std::string_view call) const {
    if (is_module(call)) return traits_of(module_class(call));
    const std::string name = operator_name(call);
    const std::size_t dot = name.rfind('.');
    return traits_of(dot == std::string::npos ? name : name.substr(dot + 1));
  }

  Allowance allowed_of(std::uint32_t record, const OperatorTraits& traits, const Result& result,
                       std::span<const Influence> influences, bool knows_inputs) {
    if (!knows_inputs) return {kInfinity, kInfinity};
    const bool has_noise = std::any_of(influences.begin(), influences.end(),
                                       [](const Influence& one) { return one.distance.high > 0; });
    if (has_noise && zone_of(record) == Zone::kOptimizer) return {kInfinity, kInfinity};
    const bool is_composite = is_module(name(record)) || traits.growth == Growth::kRecurrent;
    Result computed = result;
    // Under autocast, what is computed inside may be of a coarser dtype than what comes out.
    if (is_composite && result.unit > 0) computed.unit = std::max(result.unit, coarsest_unit_);
    Allowance allowed = allowance(traits, computed, influences, noise_);
    // A module is as far off as what is computed inside of it.
    const auto found = inside_.find(name(record));
    if (found == inside_.end()) return allowed;
    const Allowance by_parts =
        composite(found->second.high, found->second.high, std::max(found->second.unit, result.unit));
    return {std::max(allowed.magnitude, by_parts.magnitude), std::max(allowed.bias, by_parts.bias),
            std::max(allowed.expected, by_parts.expected), allowed.element, allowed.cancelled};
  }

  void tell_result(std::uint32_t record, const ItemPair& row, const Distance& apart, const Allowance& allowed,
                   bool is_excluded, const OperatorTraits& traits, const Seen& seen) {
    Finding& finding = add(FindingKind::kOperator, record);
    finding.distance = apart;
    finding.explained = allowed.magnitude;
    finding.strength = seen.strength;
    finding.exact_before = seen.in_is_equal;
    finding.other_kernel_excluded = is_excluded;
    const std::string item = item_name(row);
    finding.reason = seen.in_is_equal ? "what goes into " + finding.name + " agrees, " + item + " does not"
                                      : item + " differs by more than what goes in explains";
    const std::string_view ours = pair_.target.text(pair_.target_item(row).dtype);
    const std::string_view theirs = pair_.reference.text(pair_.reference_item(row)->dtype);
    if (ours != theirs) {
      finding.reason += ": it is " + std::string(ours) + ", in the reference " + std::string(theirs);
    }
    if (finding.name.starts_with("Distributed.")) finding.kind = FindingKind::kReduction;
    if (traits.growth == Growth::kRandom) {
      finding.kind = FindingKind::kRandomness;
      finding.reason += " (a random operator)";
    }
  }

  // Where elements were near a limit, as of a router, others are chosen, and another number of them.
  bool is_other_choice(const ItemPair& row) const {
    return has_flips_ && !row.reference && row.reason == trace::NoMatchReason::kShape;
  }

  // A result that cannot be compared: of another dtype or shape.
  void visit_lone_result(std::uint32_t record, const ItemPair& row, const Item& item,
                         std::span<const Influence> influences, bool knows_inputs, std::size_t arguments,
                         const OperatorTraits& traits) {
    if (arguments > 0 || !knows_inputs || item.kind == Item::Kind::kNull) return;
    // How many elements there are may depend on those of a mask or an index, or on noise.
    const bool is_chosen = std::any_of(influences.begin(), influences.end(),
                                       [](const Influence& one) { return one.distance.high > 0; });
    if (is_chosen && !only_sums(traits)) return;
    Finding& finding = add_argument(record, item_name(row));
    finding.kind = FindingKind::kOperator;
    finding.target_value = show(pair_.target, &item);
    finding.reference_value = reason(row.reason);
    finding.reason =
        finding.name + " is " + finding.target_value + ", in the reference it has " + finding.reference_value;
    finding.name = name(record);
    finding.effect = kInfinity;
  }
  static bool only_sums(const OperatorTraits& traits) {
    return traits.growth == Growth::kProduct || traits.growth == Growth::kScaleFree ||
           traits.growth == Growth::kElementwise;
  }

  // Whether an earlier call of the same operator, on equal shapes, agreed in all.
  bool was_equal_before(std::uint32_t record) {
    for (const std::uint32_t equal : equal_records_) equal_calls_.insert(call_key(equal));
    equal_records_.clear();
    return equal_calls_.contains(call_key(record));
  }
  // Equal for calls of one operator on equal shapes and dtypes.
  std::uint64_t call_key(std::uint32_t record) const {
    std::string what;
    trace::append_without_count(what, name(record));
    const trace::Token token = trace::token_of(what, pair_.target, pair_.target.records()[record]);
    return token.what ^ (token.detail * 3);
  }

  void note_strength(std::uint32_t record, double strength) {
    const std::string_view around = is_module(name(record)) ? name(record) : parent_of(record);
    double& known = result_.strength_of_modules[module_path(around)];
    known = std::max(known, strength);
  }

  // What the modules around may be off by.
  void note_inside(std::uint32_t record, std::span<const ItemPair> rows, const Seen& seen) {
    const std::string_view around = parent_of(record);
    if (around.empty()) return;
    Inside own;
    if (const auto found = inside_.find(name(record)); found != inside_.end()) own = found->second;
    own.high = std::max(own.high, std::isfinite(seen.high) ? seen.high : 0);
    for (const ItemPair& row : rows) {
      if (!row.reference || is_input(pair_.target_item(row).part)) continue;
      own.unit = std::max(own.unit, unit_of(*pair_.reference_item(row)));
    }
    Inside& outer = inside_[around];
    outer.high = std::max(outer.high, own.high);
    outer.unit = std::max(outer.unit, own.unit);
  }

  // How far off the optimizer left this value in the step before.
  std::optional<double> updated_before(const Item& reference) const {
    const auto key = before_ != nullptr ? key_of_updated(reference) : std::nullopt;
    if (!key) return std::nullopt;
    const auto found = before_->updated.find(*key);
    return found == before_->updated.end() ? std::nullopt : std::optional(found->second);
  }

  std::optional<std::uint64_t> key_of_updated(const Item& reference) const {
    const auto min = pair_.reference.number(reference.min), max = pair_.reference.number(reference.max);
    return min && max ? std::optional(updated_key(*min, *max)) : std::nullopt;
  }

  void keep_updated(std::span<const ItemPair> rows) {
    for (const ItemPair& row : rows) {
      const Item& item = pair_.target_item(row);
      if (!row.reference || is_input(item.part) || item.kind != Item::Kind::kTensor) continue;
      const auto key = key_of_updated(*pair_.reference_item(row));
      if (!key) continue;
      double& known =
          result_.walk.updated[*key];  // of several with the same extremes, the one that is farther off
      known = std::max(known, distance_of(row).high);
    }
  }

  // Of the results that the reference computes.
  double coarsest_unit() const {
    double unit = 0;
    for (const ItemPair& row : pair_.matches.pairs) {
      if (row.reference && !is_input(pair_.target_item(row).part))
        unit = std::max(unit, unit_of(*pair_.reference_item(row)));
    }
    return unit;
  }

  // ---- Gradients of parameters

  // Below this an element of a gradient is nothing but rounding: a part of the median over all parameters.
  double negligible_gradient() const {
    std::vector<double> typical;
    for (const Record& record : pair_.reference.records()) {
      if (!trace::holds_gradients(pair_.reference.name(record))) continue;
      for (const Item& item : pair_.reference.items(record)) {
        if (item.kind != Item::Kind::kTensor) continue;
        if (const double element = trace::facts_of(pair_.reference, item).typical(); element > 0)
          typical.push_back(element);
      }
    }
    if (typical.empty()) return 0;
    const auto middle = typical.begin() + static_cast<std::ptrdiff_t>(typical.size() / 2);
    std::nth_element(typical.begin(), middle, typical.end());
    return kRoundingModel.negligible_gradient * *middle;
  }

  void visit_gradients(std::uint32_t record) {
    if (!records_.of_target[record]) return;
    Allowance of_module{-1, 0};
    for (const ItemPair& row : rows_.of_record(record)) {
      if (!row.reference) continue;
      const Distance apart = distance_of(row, negligible_gradient_);
      const std::string_view parameter = pair_.target.text(pair_.target_item(row).path);
      result_.walk.left_behind[gradient_key(name(record), parameter)] = distance_of(row).high;
      if (apart.high > 0 && std::isfinite(apart.high)) note_gradient(row, apart);
      if (apart.equal) continue;
      if (of_module.magnitude < 0) of_module = allowed_of_module(name(record));
      Allowance allowed = of_module;
      const double unit = unit_of(*pair_.reference_item(row));
      allowed.magnitude += kComposite * kRoundingModel.own * unit;
      allowed.bias += kComposite * unit;
      // The gradient is the very result of a backward call.
      if (const ItemIndex source = backward_result(row.reference.index); source != kNoItem) {
        const std::uint32_t known = row_of_reference(source);
        if (known != kNoRow) {
          const Distance there = distance_of(rows_[known], negligible_gradient_);
          const double count =
              std::max(trace::element_count(pair_.reference.text(pair_.reference_item(row)->shape)), 1.0);
          allowed = {there.high, there.bias + there.high / std::sqrt(count)};
        }
      }
      const double strength = beyond(apart, allowed);
      note_closest(strength, row);
      if (strength < 1) continue;
      Finding& finding = add(FindingKind::kGradient, record);
      finding.phase = Phase::kGradients;
      finding.name = item_name(row);
      finding.module = module_path(name(record));
      finding.distance = apart;
      finding.explained = allowed.magnitude;
      finding.strength = strength;
      finding.exact_before = of_module.magnitude == 0;
      finding.reason = finding.name + " differs, and what it is made of does not explain it";
    }
  }

  // The first result of a backward call that is this gradient.
  ItemIndex backward_result(ItemIndex gradient) {
    for (ItemIndex item = reference_flow().follower(gradient); item != kNoItem;
         item = reference_flow().follower(item)) {
      const bool is_result = !is_input(pair_.reference.all_items()[item].part);
      if (is_result && is_backward(reference_name(reference_flow().record(item)))) return item;
    }
    return kNoItem;
  }

  void note_closest(double strength, const ItemPair& row) {
    Largest& closest = result_.walk.closest;
    if (strength < 1 && strength > closest.value) closest = {strength, item_name(row)};
  }

  void note_gradient(const ItemPair& row, const Distance& apart) {
    result_.gradients = std::max(result_.gradients, apart.high);
    if (apart.value > result_.walk.largest_gradient.value) {
      result_.walk.largest_gradient = {apart.value, item_name(row)};
    }
  }

  // All that goes into the gradients of a module's parameters: every backward call of it. Without one,
  // everything that came before.
  Allowance allowed_of_module(std::string_view gradients) const {
    const std::string prefix(gradients.substr(0, gradients.find(".parameters_grad")));
    double high = 0;
    bool found = false;
    for (int call = 0;; ++call) {
      const std::string backward = prefix + ".backward." + std::to_string(call);
      const auto record = pair_.target.find(backward);
      if (!record) break;
      found = true;
      const Seen& seen = seen_[*record];
      high = std::max({high, seen.in_high, seen.high});
      if (const auto inside = inside_.find(backward); inside != inside_.end())
        high = std::max(high, inside->second.high);
      if (const auto forward = forward_record(static_cast<std::uint32_t>(*record))) {
        high = std::max({high, seen_[*forward].in_high, seen_[*forward].high});
      }
    }
    if (!found) high = noise_;
    return {kComposite * high, kComposite * high};
  }

  // ---- Effects

  void find_effect(const Waiting& waiting) {
    if (waiting.finding == kNoAlone) return;
    Finding& finding = result_.walk.findings[waiting.finding];
    const std::uint32_t record = waiting.record;
    const Seen& seen = seen_[record];
    finding.effect = seen.has_result || seen.effect > 0 ? seen.effect
                                                        : effect_around(parent_of(record), false, record + 1);
    const bool is_other_number = waiting.apart > kAnotherNumber && std::isfinite(waiting.apart);
    finding.is_hidden = is_other_number && finding.effect < 1 && !seen.in_is_equal;
  }

  // Where a module computes the same by other calls, a call that both have may be given something else on the
  // way.
  void find_effect_of_rearranged(const Waiting& waiting) {
    const std::string_view around = parent_of(waiting.record);
    const bool has_other_calls = std::any_of(alone_.begin(), alone_.end(), [&](const Alone& alone) {
      return !alone.is_missing && alone.around == around && !is_backward(alone.name);
    });
    if (waiting.finding == kNoAlone || around.empty() || !has_other_calls) return;
    result_.walk.findings[waiting.finding].effect = effect_around(around, false, waiting.record + 1);
  }

  void find_effect_of_choice(const Waiting& waiting) {
    if (waiting.finding == kNoAlone) return;
    result_.walk.findings[waiting.finding].effect =
        effect_around(parent_of(waiting.record), false, waiting.record + 1);
  }

  // The result of the innermost call of a module around that both runs have; without one, what goes into the
  // next calls.
  double effect_around(std::string_view module, bool of_reference, double order) {
    const auto& construct = of_reference ? pair_.reference_construct : pair_.target_construct;
    const Trace& trace = of_reference ? pair_.reference : pair_.target;
    for (int depth = 0; construct && !module.empty() && depth < kDeepest; ++depth) {
      if (const auto found = trace.find(module)) {
        const auto index = static_cast<std::uint32_t>(*found);
        const std::uint32_t ours = of_reference ? records_.of_reference[index].index : index;
        if (ours != kNoMatch && (seen_[ours].has_result || seen_[ours].effect > 0)) return seen_[ours].effect;
      }
      module = construct->parent(module);
    }
    double effect = 0;
    int looked_at = 0;
    for (auto i = static_cast<std::size_t>(std::max(std::ceil(order), 0.0));
         i < seen_.size() && looked_at < kCallsToLookAt; ++i) {
      if (!records_.of_target[i] || trace::holds_gradients(name(static_cast<std::uint32_t>(i)))) continue;
      effect = std::max(effect, seen_[i].effect);
      ++looked_at;
    }
    return looked_at == 0 ? kInfinity : effect;
  }

  // ---- Texts

  static std::string show(const Trace& trace, const Item* item) {
    if (item->kind == Item::Kind::kNull) return "None";
    if (item->kind == Item::Kind::kTensor) {
      return std::string(trace.text(item->dtype)) + " " + std::string(trace.text(item->shape));
    }
    return std::string(trace.text(item->value));
  }
  static std::string_view reason(trace::NoMatchReason reason) {
    switch (reason) {
      case trace::NoMatchReason::kShape: return "another shape";
      case trace::NoMatchReason::kDtype: return "another dtype";
      default: return "nothing";
    }
  }

  // A result that is whatever the memory held before.
  bool holds_nothing(const ItemPair& row) const {
    return !is_input(pair_.target_item(row).part) && trace::is_uninitialised(name(row.target_record));
  }

  // Where every call is off by no more than it may be, and all together are by more than that.
  void find_stretch() {
    if (before_ != nullptr) return;
    const double most = kRoundingModel.most_roundings * coarsest_unit_;
    for (const ItemPair& row : pair_.matches.pairs) {
      const Distance& apart = distance_of(row);
      const bool is_result = row.reference && !is_input(pair_.target_item(row).part) && !holds_nothing(row) &&
                             zone_of(row.target_record) == Zone::kModel;
      if (!is_result || unit_of(*pair_.reference_item(row)) == 0 || apart.norm == 0) continue;
      if (set_aside_[row.target_record] || !began_before(row.target_record, most)) continue;
      if (is_backward(name(row.target_record))) continue;  // some are nothing but rounding
      const bool is_gradient = trace::holds_gradients(name(row.target_record));
      const double low = is_gradient ? distance_of(row, negligible_gradient_).low / 4 : apart.low;
      if (low > most) {
        result_.walk.first_differing = item_name(row);
        return;
      }
      if (apart.high <= most / 16) result_.walk.last_agreeing = item_name(row);
    }
    result_.walk.last_agreeing.clear();
  }

  // False where a call has inputs that are too far off, and no result before was: they come from a place that
  // is not recorded, or the call is another one. Modules tell in any case.
  bool began_before(std::uint32_t record, double most) const {
    const auto rows = rows_.of_record(record);
    return is_module(name(record)) || trace::holds_gradients(name(record)) ||
           std::all_of(rows.begin(), rows.end(), [&](const ItemPair& row) {
             return !is_input(pair_.target_item(row).part) || !row.reference || distance_of(row).low <= most;
           });
  }

  // Of what no finding tells: another shape or dtype, or values that have little in common.
  void note_stranger(const ItemPair& row) {
    const Item& ours = pair_.target_item(row);
    if (ours.kind != Item::Kind::kTensor || holds_nothing(row) || is_overwritten(row.target_record, ours))
      return;
    const bool is_stranger =
        row.reference
            ? pair_.target.text(ours.dtype) != pair_.reference.text(pair_.reference_item(row)->dtype) ||
                  distance_of(row).low > kStranger
            : row.reason == trace::NoMatchReason::kShape || row.reason == trace::NoMatchReason::kDtype;
    if (is_stranger) result_.walk.stranger = item_name(row);
  }

  // Equal numbers of another dtype are not the same result. Frameworks name one in other ways.
  bool is_of_other_dtype(const ItemPair& row) const {
    const Item &ours = pair_.target_item(row), &theirs = *pair_.reference_item(row);
    return ours.kind == Item::Kind::kTensor && theirs.kind == Item::Kind::kTensor &&
           ours.element_type() != theirs.element_type();
  }

  void summarize() {
    StepWalk& walk = result_.walk;
    find_stretch();
    walk.noise = noise_;
    walk.unit = coarsest_unit_;
    for (const ItemPair& row : pair_.matches.pairs) {
      if (walk.stranger.empty()) note_stranger(row);
      const Distance& apart = distance_of(row);
      if (!row.reference || holds_nothing(row)) continue;
      if (!apart.equal || is_of_other_dtype(row)) ++walk.differing;
      if (set_aside_[row.target_record]) continue;
      if (std::isinf(apart.high) && std::isfinite(apart.low)) ++walk.unseen;
      const bool is_forward_result = !is_input(pair_.target_item(row).part) &&
                                     !is_backward(name(row.target_record)) &&
                                     !trace::holds_gradients(name(row.target_record));
      if (is_forward_result && std::isfinite(apart.value) && apart.value > walk.largest.value) {
        walk.largest = {apart.value, {}};
        largest_row_ = &row;
      }
    }
    walk.differing += pair_.matches.reference_only.size();
    for (const ItemPair& row : pair_.matches.pairs) walk.differing += row.reference ? 0 : 1;
    if (largest_row_ != nullptr) walk.largest.name = item_name(*largest_row_);
    std::stable_sort(walk.findings.begin(), walk.findings.end(),
                     [](const Finding& a, const Finding& b) { return a.place() < b.place(); });
  }

  static constexpr std::size_t kNoAlone = static_cast<std::size_t>(-1);

  const DumpPair& pair_;
  trace::RecordMatches records_;  // without the pairs that are set aside
  const std::vector<RealMetrics>& metrics_;
  const std::vector<Distance>& distances_;
  const StepWalk* before_;
  bool has_state_;
  Rows rows_;
  trace::ParentCursor parents_;
  std::vector<Seen> seen_;  // by record of the target
  std::optional<Flow> target_flow_, reference_flow_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> missing_;  // record of the target before which, record
  std::size_t next_missing_ = 0;
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> reference_only_;  // items, by record
  std::vector<Alone> alone_;
  std::size_t last_missing_ = kNoAlone, last_extra_ = kNoAlone;
  std::unordered_map<std::uint32_t, std::size_t> alone_of_reference_, alone_of_target_;  // by record
  std::vector<Resolved> resolved_;                       // by record of the reference, so far
  std::unordered_map<std::string_view, Inside> inside_;  // by module
  std::vector<Waiting> waiting_;
  std::vector<Waiting> rearranged_;
  std::vector<Waiting> chosen_;  // tensors of other elements than in the reference
  std::vector<std::uint32_t> gradients_;
  std::unordered_set<std::uint64_t> equal_calls_;  // operators and shapes seen with equal inputs and results
  std::vector<std::uint32_t> equal_records_;       // those to be added to them
  double negligible_gradient_ = 0;
  double coarsest_unit_ = 0;
  double noise_ = 0;      // the largest distance of a result so far
  bool differs_ = false;  // something differed before, in this step or those before it
  bool is_after_backward_ = false;
  std::unordered_map<std::uint64_t, const Distance*>
      gradient_of_;              // of parameters, by the extremes of the reference
  double largest_gradient_ = 0;  // distance
  bool has_flips_ = false;       // integers or flags that were computed differ
  const ItemPair* largest_row_ = nullptr;
  std::vector<bool> set_aside_;  // by record of the target
  Finding discarded_;
  CallWalk result_;
};

}  // namespace

CallWalk walk_calls(const DumpPair& pair, const std::vector<RealMetrics>& metrics,
                    const std::vector<Distance>& distances, const StepWalk* before, bool has_state) {
  return CallWalker(pair, metrics, distances, before, has_state).run();
}

std::vector<Distance> distances(const DumpPair& pair, const std::vector<RealMetrics>& metrics,
                                unsigned threads) {
  constexpr std::size_t kRowsAtOnce = 4096;
  const std::vector<ItemPair>& rows = pair.matches.pairs;
  std::vector<Distance> result(rows.size());
  ThreadPool pool(threads);
  pool.parallel_for((rows.size() + kRowsAtOnce - 1) / kRowsAtOnce, [&](std::size_t part) {
    const std::size_t end = std::min(rows.size(), (part + 1) * kRowsAtOnce);
    for (std::size_t i = part * kRowsAtOnce; i < end; ++i) {
      result[i] = trace::distance(pair.target, pair.target_item(rows[i]), pair.reference,
                                  pair.reference_item(rows[i]), metrics.empty() ? nullptr : &metrics[i]);
    }
  });
  return result;
}

}  // namespace msprobe::compare

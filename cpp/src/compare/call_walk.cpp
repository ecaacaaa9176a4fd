// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "compare/call_walk.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "compare/call_walker.h"
#include "msprobe/step_walk.h"

namespace msprobe::compare {
namespace {

// Without modules and without values that can be followed, what comes of a call is looked for in so many of
// the next ones.
constexpr int kCallsToLookAt = 4;

// Arguments that are off by more than this are another number: what comes of it may still be hidden by
// rounding.
constexpr double kAnotherNumber = 1e-3;

// No rounding of one kernel in any dtype makes as much: worth a note.
constexpr double kStranger = 0.25;

// "[2, 3, 4]" -> 4; 1 of a single element.
double last_extent(std::string_view shape) {
  const std::size_t begin = shape.find_last_of(" [,(");
  double extent = 1;
  if (begin != shape.npos) std::from_chars(shape.data() + begin + 1, shape.data() + shape.size(), extent);
  return std::max(extent, 1.0);
}

// "Tensor.add_" -> "add"
std::string plain_operator(std::string_view operator_name) {
  std::string_view last = operator_name.substr(operator_name.rfind('.') + 1);
  while (last.ends_with('_')) last.remove_suffix(1);
  return std::string(last);
}

// What is in its first argument before does not matter: often it is memory that nobody has written to yet.
bool overwrites_first(std::string_view record) {
  const operators::Row row = operators::find(operator_name(record));
  return row.overwrites && row.is_in_place;
}

}  // namespace

CallWalker::CallWalker(const DumpPair& pair, const std::vector<RealMetrics>& metrics,
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

CallWalk CallWalker::run() {
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
  if (!has_state_) keep_parameters();
  summarize();
  return std::move(result_);
}

Distance CallWalker::distance_of(const ItemPair& row, double floor) const {
  const Distance& found = distance_of(row);
  if (floor == 0 || found.equal) return found;
  return trace::distance(pair_.target, pair_.target_item(row), pair_.reference, pair_.reference_item(row),
                         metrics_.empty() ? nullptr : &metrics_[rows_.index(row)], floor);
}

const Flow& CallWalker::target_flow() {
  if (!target_flow_) target_flow_.emplace(pair_.target);
  return *target_flow_;
}

const Flow& CallWalker::reference_flow() {
  if (!reference_flow_) reference_flow_.emplace(pair_.reference);
  return *reference_flow_;
}

Finding& CallWalker::add(FindingKind kind, std::uint32_t record) {
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

bool CallWalker::is_update(std::string_view operator_name) {
  static const std::unordered_set<std::string_view> names = {
      "addcdiv_", "addcmul_", "lerp_", "_foreach_addcdiv_", "_foreach_addcmul_", "_foreach_lerp_"};
  const std::size_t dot = operator_name.rfind('.');
  return names.contains(dot == std::string_view::npos ? operator_name : operator_name.substr(dot + 1));
}

CallWalker::Zone CallWalker::zone_of(std::uint32_t record) {
  const std::string_view around = parent_of(record);
  if (around == "optimizer" || (around.empty() && is_update(operator_name(name(record)))))
    return Zone::kOptimizer;
  return around == "clip_grad" ? Zone::kClipping : Zone::kModel;
}

void CallWalker::note_place(std::uint32_t record) {
  if (is_backward(name(record))) {
    is_after_backward_ = true;
  } else if (is_module(name(record)) || is_module(parent_of(record))) {
    is_after_backward_ = false;
  }
}

// ---- Calls of both sides

void CallWalker::visit(std::uint32_t record) {
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

bool CallWalker::same_gradient_flag(const ItemPair& row) const {
  const Item& ours = pair_.target_item(row);
  const Item* const theirs = pair_.reference_item(row);
  return ours.requires_grad == theirs->requires_grad;
}

void CallWalker::visit_equal(std::uint32_t record, std::span<const ItemPair> rows, Seen& seen) {
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

void CallWalker::visit_different(std::uint32_t record, std::span<const ItemPair> rows, Seen& seen) {
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

void CallWalker::note_input(Seen& seen, const Influence& one) {
  seen.in_high = std::max(seen.in_high, one.distance.high);
  if (std::isfinite(one.distance.value)) seen.in_value = std::max(seen.in_value, one.distance.value);
  seen.in_is_equal &= one.distance.equal && one.distance.high == 0;
}

std::optional<std::uint32_t> CallWalker::forward_of(std::uint32_t record) const {
  const trace::RecordName backward(name(record));
  if (!backward.is_backward()) return std::nullopt;
  const auto found = pair_.target.find(backward.with(trace::Direction::kForward));
  return found ? std::optional(static_cast<std::uint32_t>(*found)) : std::nullopt;
}

std::optional<std::uint32_t> CallWalker::forward_record(std::uint32_t record) const {
  const auto forward = forward_of(record);
  return forward && records_.of_target[*forward] ? forward : std::nullopt;
}

bool CallWalker::collect_influences(std::uint32_t record, std::span<const ItemPair> rows, bool is_saved,
                                    std::vector<Influence>& influences) {
  bool knows_all = true;
  const operators::Keeps saved = is_saved ? traits_of_record(name(record)).keeps : operators::Keeps::kAll;
  const Item* const bias = saved == operators::Keeps::kFactors ? added_bias(rows) : nullptr;
  for (const ItemPair& row : rows) {
    const Item& item = pair_.target_item(row);
    if (item.kind != Item::Kind::kTensor || !(is_saved || is_input(item.part))) continue;
    if (is_overwritten(record, item)) continue;
    if (saved == operators::Keeps::kFactors && (!is_input(item.part) || &item == bias)) continue;
    if (saved == operators::Keeps::kNothing && metrics::unit_roundoff(item.element_type()) > 0) continue;
    const Item* const other = pair_.reference_item(row);
    if (other == nullptr) {
      knows_all = false;
      continue;
    }
    influences.push_back(influence_of(row, *other, is_saved));
  }
  if (!is_saved) weigh_terms(record, influences);
  return knows_all && reference_only_tensors(record) == 0;
}

void CallWalker::weigh_terms(std::uint32_t record, std::span<Influence> terms) const {
  const std::string call = plain_operator(operator_name(name(record)));
  const bool is_mean = call == "lerp";
  if (terms.size() != 2 || !(is_mean || call == "add" || call == "sub")) return;
  const Record& reference = pair_.reference.records()[records_.of_target[record].index];
  for (const Item& item : pair_.reference.items(reference)) {
    const std::string_view path = pair_.reference.text(item.path);
    if (!is_input(item.part) || !(is_mean ? path == "2" || path == "weight" : path == "alpha")) continue;
    const auto weight = pair_.reference.number(item.value);
    if (!weight || !std::isfinite(*weight)) return;
    terms[1].weigh(std::abs(*weight));
    if (is_mean) terms[0].weigh(std::abs(1 - *weight));
  }
}

// The last of three or more tensors of numbers that go in, where it has one dimension.
const trace::Item* CallWalker::added_bias(std::span<const ItemPair> rows) const {
  const Item* last = nullptr;
  int tensors = 0;
  for (const ItemPair& row : rows) {
    const Item& item = pair_.target_item(row);
    if (!is_input(item.part) || item.kind != Item::Kind::kTensor) continue;
    if (metrics::unit_roundoff(item.element_type()) == 0) continue;
    last = &item;
    ++tensors;
  }
  const bool is_bias =
      tensors >= 3 && pair_.target.text(last->shape).find_first_of(" ,") == std::string::npos;
  return is_bias ? last : nullptr;
}

std::size_t CallWalker::reference_only_tensors(std::uint32_t record) const {
  const auto found = reference_only_.find(records_.of_target[record].index);
  if (found == reference_only_.end()) return 0;
  return static_cast<std::size_t>(
      std::count_if(found->second.begin(), found->second.end(), [&](std::uint32_t i) {
        const Item& item = pair_.reference.all_items()[i];
        return item.kind == Item::Kind::kTensor && is_input(item.part);
      }));
}

Influence CallWalker::influence_of(const ItemPair& row, const Item& reference, bool is_saved) {
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
    result.distance.expected = std::max(result.distance.expected, 1.0);
  }
  result.is_saved = is_saved;
  if (!hidden_.empty()) {
    const auto hidden = hidden_.find(value_key(pair_.reference, reference));
    if (hidden != hidden_.end()) result.hidden = hidden->second;
  }
  const bool has_origin = before_ != nullptr || !alone_.empty() || !result_.walk.findings.empty();
  result.is_shared = has_origin && result.distance.expected > own_rounding(result.unit) &&
                     parameter_of(row.target_record, row).empty();
  result.last = last_extent(pair_.reference.text(reference.shape));
  return result;
}

bool CallWalker::is_overwritten(std::uint32_t record, const Item& item) const {
  return item.part == Part::kInputArgs && pair_.target.text(item.path) == "0" &&
         overwrites_first(name(record));
}

// ---- Effects

void CallWalker::find_effect(const Waiting& waiting) {
  if (waiting.finding == kNoAlone) return;
  Finding& finding = result_.walk.findings[waiting.finding];
  const std::uint32_t record = waiting.record;
  const Seen& seen = seen_[record];
  finding.effect =
      seen.has_result || seen.effect > 0 ? seen.effect : effect_around(parent_of(record), false, record + 1);
  const bool is_other_number = waiting.apart > kAnotherNumber && std::isfinite(waiting.apart);
  finding.is_hidden = is_other_number && finding.effect < 1 && !seen.in_is_equal;
}

void CallWalker::find_effect_of_rearranged(const Waiting& waiting) {
  const std::string_view around = parent_of(waiting.record);
  const bool has_other_calls = std::any_of(alone_.begin(), alone_.end(), [&](const Alone& alone) {
    return !alone.is_missing && alone.around == around && !is_backward(alone.name);
  });
  if (waiting.finding == kNoAlone || around.empty() || !has_other_calls) return;
  result_.walk.findings[waiting.finding].effect = effect_around(around, false, waiting.record + 1);
}

void CallWalker::find_effect_of_choice(const Waiting& waiting) {
  if (waiting.finding == kNoAlone) return;
  result_.walk.findings[waiting.finding].effect =
      effect_around(parent_of(waiting.record), false, waiting.record + 1);
}

double CallWalker::effect_around(std::string_view module, bool of_reference, double order) {
  const auto& construct = of_reference ? pair_.reference_construct : pair_.target_construct;
  const Trace& trace = of_reference ? pair_.reference : pair_.target;
  for (int depth = 0; construct && !module.empty() && depth < kDeepest; ++depth) {
    if (const auto found = trace.find(module)) {
      const auto index = static_cast<std::uint32_t>(*found);
      const std::uint32_t ours = of_reference ? records_.of_reference[index].index : index;
      if (ours != trace::kNoMatch && (seen_[ours].has_result || seen_[ours].effect > 0))
        return seen_[ours].effect;
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

std::string CallWalker::show(const Trace& trace, const Item* item) {
  if (item->kind == Item::Kind::kNull) return "None";
  if (item->kind == Item::Kind::kTensor) {
    return std::string(trace.text(item->dtype)) + " " + std::string(trace.text(item->shape));
  }
  return std::string(trace.text(item->value));
}

std::string_view CallWalker::reason(trace::NoMatchReason reason) {
  switch (reason) {
    case trace::NoMatchReason::kShape: return "another shape";
    case trace::NoMatchReason::kDtype: return "another dtype";
    default: return "nothing";
  }
}

void CallWalker::find_stretch() {
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

bool CallWalker::began_before(std::uint32_t record, double most) const {
  const auto rows = rows_.of_record(record);
  return is_module(name(record)) || trace::holds_gradients(name(record)) ||
         std::all_of(rows.begin(), rows.end(), [&](const ItemPair& row) {
           return !is_input(pair_.target_item(row).part) || !row.reference || distance_of(row).low <= most;
         });
}

void CallWalker::note_stranger(const ItemPair& row) {
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

bool CallWalker::is_of_other_dtype(const ItemPair& row) const {
  const Item &ours = pair_.target_item(row), &theirs = *pair_.reference_item(row);
  return ours.kind == Item::Kind::kTensor && theirs.kind == Item::Kind::kTensor &&
         ours.element_type() != theirs.element_type();
}

void CallWalker::summarize() {
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

CallWalk walk_calls(const DumpPair& pair, const std::vector<RealMetrics>& metrics,
                    const std::vector<Distance>& distances, const StepWalk* before, bool has_state) {
  return CallWalker(pair, metrics, distances, before, has_state).run();
}

std::vector<Distance> distances(const DumpPair& pair, const std::vector<RealMetrics>& metrics,
                                unsigned threads) {
  constexpr std::size_t kRowsAtOnce = 4096;
  const std::vector<trace::ItemPair>& rows = pair.matches.pairs;
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

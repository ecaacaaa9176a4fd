// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/suspects_of_calls.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "verdict/arrival.h"
#include "verdict/calls.h"
#include "verdict/effects.h"
#include "verdict/findings.h"
#include "verdict/places_of_calls.h"
#include "verdict/stretch.h"
#include "verdict/unpaired.h"
#include "verdict/what_happened.h"

namespace msprobe::verdict {
namespace {

using operators::Gain;
using Part = Item::Part;

class Walk {
 public:
  Walk(const Calls& calls, const StepWalk* before, bool has_state, double arriving, const Observer& observer)
      : model_(calls.model()),
        calls_(calls),
        unpaired_(calls),
        places_(calls, unpaired_, before),
        before_(before),
        has_state_(has_state),
        found_(model_, result_.walk, observer,
               [&calls](std::uint32_t row) { return calls.item_name(calls.row(row)); }),
        effects_(calls),
        stretch_(calls, before == nullptr) {
    result_.walk.arriving = arriving;
  }

  SuspectsOfCalls run() {
    std::vector<std::uint32_t> gradients;
    for (std::uint32_t i = 0; i < calls_.count(); ++i) {
      places_.reach(i, 0);
      if (trace::holds_gradients(calls_.name(i))) {
        gradients.push_back(i);
      } else if (calls_.is_paired(i) && !calls_.is_of_another_pass(i)) {
        visit(i);
      }
    }
    for (const Run* run : {&calls_.ours(), &calls_.theirs()}) note_prepared(*run);
    for (const std::uint32_t i : gradients) visit_gradients(i);
    for (const Unmeasured& one : unmeasured_) find_effect(one);
    for (const UnpairedCalls& group : unpaired_.groups()) {
      report_group(group);
      note_handled(group);
    }
    if (std::isfinite(result_.walk.arriving)) drop_unused();
    found_.sort();
    walk().noise = places_.before(calls_.count());
    stretch_.tell(walk());
    summarize(calls_, has_state_, walk());
    return std::move(result_);
  }

 private:
  // A finding without a distance, or one that counts only where something comes of it.
  struct Unmeasured {
    std::size_t finding = 0;
    std::uint32_t record = 0;
    bool decides = false;            // what is made of equal tensors
    bool is_another_number = false;  // than everything before explains
    bool is_around = false;          // shows in the module around, and not in the call
  };

  StepWalk& walk() { return result_.walk; }

  // ---- findings

  Finding& at(std::uint32_t record, Finding& finding) {
    finding.record = calls_.name(record);
    finding.order = record;
    finding.module = module_path(calls_.parent(record));
    finding.operator_name = operator_name(finding.record);
    return finding;
  }

  Phase phase_of(std::uint32_t record) const {
    const Zone zone = calls_.zone(record);
    return zone == Zone::kOptimizer  ? Phase::kUpdate
           : zone == Zone::kClipping ? Phase::kClipping
                                     : Phase::kCalls;
  }

  Finding& add(FindingKind kind, const ItemPair& row, Clause because, const Measured& measured) {
    const std::uint32_t record = row.target_record;
    return at(record,
              found_.add(kind, phase_of(record), calls_.item_name(row), std::move(because), measured));
  }

  Finding& add_values(std::uint32_t record, const std::string& name, std::string ours, std::string theirs) {
    Finding& finding =
        at(record, found_.add_values(FindingKind::kArgument, phase_of(record), name, Reason::kValues, {name},
                                     std::move(ours), std::move(theirs)));
    finding.exact_before = effects_[record].in_is_equal;
    return finding;
  }

  Measured measure(const ItemPair& row, Place place, const Distance& apart) {
    const Arrival arriving = arrival(row, apart);
    Measured measured = found_.measure(std::move(place), apart, arriving == Arrival::kArrives,
                                       [&] { return calls_.item_name(row); });
    if (arriving == Arrival::kLater) measured.later = measured.excess;
    return measured;
  }

  double beyond(const ItemPair& row, const Distance& apart, const Tolerance& allowed) const {
    return arrival(row, apart) == Arrival::kArrives ? model_.excess(apart, allowed) : 0;
  }

  Arrival arrival(const ItemPair& row, const Distance& apart) const {
    return verdict::arrival(calls_, row, apart, result_.walk.arriving, before_ == nullptr);
  }

  // ---- one call

  void visit(std::uint32_t record) {
    const auto rows = calls_.rows_of(record);
    Outcome& seen = effects_[record];
    const bool is_alike = calls_.reference_only(record).empty() &&
                          std::all_of(rows.begin(), rows.end(), [&](const ItemPair& row) {
                            return row.reference && calls_.distance(row).equal &&
                                   calls_.item(row).requires_grad == calls_.other_item(row)->requires_grad;
                          });
    if (is_alike) {
      seen.has_result = std::ranges::any_of(rows, [&](const ItemPair& row) { return calls_.is_result(row); });
      if (const auto forward = calls_.forward_of(record)) {
        const Outcome& made = effects_[*forward];
        seen.in_is_equal = made.in_is_equal && made.out_is_equal;
      }
    } else {
      std::vector<Source> sources;
      const bool knows_sources = places_.sources(record, sources);
      seen.in_is_equal = knows_sources;
      for (const Source& one : sources) {
        seen.entered = std::max(seen.entered, one.error());
        seen.in_is_equal &= one.distance.equal;
      }
      if (is_collective(calls_.name(record))) note_given(record, sources);
      const double parameters = places_.parameters_of(record);
      seen.entered = std::max(seen.entered, parameters);
      seen.in_is_equal &= parameters == 0;
      const std::size_t known = walk().findings.size();
      seen.has_other_arguments = visit_inputs(record, knows_sources) > 0;
      const std::size_t given = walk().findings.size();
      visit_results(record, sources, knows_sources);
      if (seen.has_result && seen.out_is_equal) come_to_nothing(record, known, given);
    }
    if (calls_.zone(record) == Zone::kOptimizer || is_written_between_steps(record)) {  // for the next step
      for (const ItemPair& row : rows) {
        if (calls_.is_result(row)) walk().updated.add(calls_.facts(row), calls_.distance(row));
      }
    }
    if (!seen.has_result) return;
    ++walk().compared;
    walk().equal += seen.out_is_equal ? 1 : 0;
  }

  // Tensors that show in no result, and are kept for no backward pass.
  void come_to_nothing(std::uint32_t record, std::size_t begin, std::size_t end) {
    if (!model_.shows || calls_.backward_of(record)) return;
    for (std::size_t i = begin; i < end; ++i) {
      Finding& finding = walk().findings[i];
      if (std::isfinite(finding.distance.low)) finding.effect = 0;
    }
  }

  void note_given(std::uint32_t record, const std::vector<Source>& sources) {
    double all = 0;
    for (const Source& one : sources) all += one.error() * one.tensor.norm;
    walk().given[std::string(calls_.name(record))] += all;
    if (operator_name(calls_.name(record)).ends_with("send"))
      walk().given[std::string(compare::kSent)] += all;
  }

  // ---- what goes in

  // Returns how many settings of the call differ. Where both runs give a function the same tensors, what is
  // no tensor, such as a word or a flag, decides what is made of them; a flag in place of a mask asks for
  // another kernel.
  std::size_t visit_inputs(std::uint32_t record, bool has_same_tensors) {
    const bool is_one_kernel = model_.words_decide && has_same_tensors && !is_module(calls_.name(record));
    std::size_t found = 0;
    for (const ItemPair& row : calls_.rows_of(record)) {
      const Item& item = calls_.item(row);
      if (!is_input(item.part) || calls_.says_nothing(row)) continue;
      const Item* const other = calls_.other_item(row);
      if (other != nullptr) visit_gradient_flag(record, row);
      const Distance& apart = calls_.distance(row);
      if (other != nullptr && apart.equal) continue;
      if (item.kind == Item::Kind::kTensor && other != nullptr) {
        visit_tensor(record, row, apart);
        continue;
      }
      if ((item.kind == Item::Kind::kNull && other == nullptr) || model_.excess_of_number(apart) < 1)
        continue;
      if (places_.computed_number(row)) continue;
      const bool is_another = other != nullptr && std::isfinite(apart.value) &&
                              model_.excess_of_number(apart, places_.before(record)) >= 1;
      const bool is_chosen = model_.other_choice && item.kind == Item::Kind::kTensor && is_other_choice(row);
      add_value(record, calls_.item_name(row), shown(calls_.target(), item),
                other != nullptr ? shown(calls_.reference(), *other) : std::string(word_of(row.reason)),
                {0, record, is_one_kernel || is_a_number(item), is_another, is_chosen});
      ++found;
      // A rate or a coefficient of an optimizer is one of its settings: what it makes of states that are 0,
      // or next to nothing, is no measure.
      if (model_.number_of_optimizer && is_another && !has_state_ &&
          calls_.zone(record) == Zone::kOptimizer) {
        walk().findings.back().effect = kInfinity;
        unmeasured_.pop_back();
      }
    }
    for (const std::uint32_t index : calls_.reference_only(record)) {
      const Item& item = calls_.reference().all_items()[index];
      if (!is_input(item.part) || item.kind == Item::Kind::kNull || item.kind == Item::Kind::kTensor)
        continue;
      add_value(record, trace::item_name(calls_.reference(), calls_.counterpart(record), index), "absent",
                shown(calls_.reference(), item), {0, record, is_one_kernel || is_a_number(item)});
      ++found;
    }
    return found;
  }

  void visit_gradient_flag(std::uint32_t record, const ItemPair& row) {
    const auto ours = calls_.item(row).requires_grad, theirs = calls_.other_item(row)->requires_grad;
    if (!ours || !theirs || *ours == *theirs || is_backward(calls_.name(record))) return;
    Finding& finding = add_values(record, calls_.item_name(row) + ".requires_grad", *ours ? "True" : "False",
                                  *theirs ? "True" : "False");
    finding.effect = kInfinity;  // a gradient is missing, which is no number
  }

  void add_value(std::uint32_t record, const std::string& name, std::string ours, std::string theirs,
                 Unmeasured how) {
    add_values(record, name, std::move(ours), std::move(theirs));
    how.finding = walk().findings.size() - 1;
    unmeasured_.push_back(how);
  }

  // Where elements were near a limit, as of a router, others are chosen, and another number of them.
  bool is_other_choice(const ItemPair& row) const {
    return places_.has_other_choices() && !row.reference && row.reason == trace::NoMatchReason::kShape;
  }

  void visit_tensor(std::uint32_t record, const ItemPair& row, const Distance& apart) {
    const bool backward = is_backward(calls_.name(record));
    if (const std::string name = backward ? std::string() : calls_.parameter(row); !name.empty()) {
      visit_parameter(record, row, apart, name);
      return;
    }
    const InputPlace input = places_.input(row);
    if (input.source == kNoItem && model_.moved_for_others && calls_.is_moved_for_others(row)) return;
    const bool is_taken_elsewhere = calls_.is_taken_elsewhere(row);
    if (input.place.sources.empty() || is_taken_elsewhere) stretch_.end();  // other data
    const Measured measured = measure(row, input.place, apart);
    places_.keep(row, input.place);
    const ItemIndex ours = calls_.ours().origin(row.target);
    effects_[record].has_other_tensors |=
        model_.another_tensor && (measured.excess >= 1 || is_taken_elsewhere);
    // The training state has what is clipped, and what goes into an optimizer, by its names, and knows what
    // is negligible (R7). Of what else differs there the weights tell that it leaves: the first is where that
    // begins.
    const bool is_clipped = calls_.zone(record) == Zone::kClipping;
    if (model_.optimizer_by_state && has_state_ && (is_clipped || calls_.parent(record) == "optimizer")) {
      if (measured.strength >= 1 &&
          !std::exchange(is_clipped ? is_clipping_told_ : is_optimizer_told_, true)) {
        const std::string name = calls_.item_name(row);
        at(record,
           found_.add(FindingKind::kArgument, phase_of(record), name, {Reason::kNoCallMadeIt, {name}}));
      }
      return;
    }
    const bool is_told = note_unpaired(row, input, ours, measured.strength) || measured.strength < 1;
    if (is_told && measured.later < 1) return;
    Finding& finding =
        add(FindingKind::kArgument, row, {Reason::kNoCallMadeIt, {calls_.item_name(row)}}, measured);
    // What is recorded of the model tells where in it.
    if (model_.prepared && input.is_of_model) finding.order = calls_.count();
    if (input.source != kNoItem) {
      tell_what_happened(calls_, row, input.source, ours, finding);
    } else if (backward) {
      finding.kind = FindingKind::kGradient;
    } else if (record == 0 && places_.before(0) == 0 && !has_state_) {
      finding.kind = FindingKind::kInputData;
      finding.because = {{Reason::kFirstInput, {finding.name}}};
    }
  }

  void visit_parameter(std::uint32_t record, const ItemPair& row, const Distance& apart,
                       const std::string& name) {
    if (before_ == nullptr) stretch_.end();
    if (has_state_ || calls_.zone(record) != Zone::kModel) return;
    const Measured measured = measure(row, places_.parameter(row, name), apart);
    if (measured.strength < 1) return;
    add(FindingKind::kWeight, row, {Reason::kParameterOf, {name, std::string(calls_.parent(record))}},
        measured);
  }

  // ---- what comes out

  // Where losses and gradients agree.
  void drop_unused() {
    std::erase_if(walk().findings, [&](const Finding& finding) {
      const Run& run = finding.is_of_reference ? calls_.theirs() : calls_.ours();
      const auto record = run.trace.find(finding.record);
      return record && calls_.is_unused(run, static_cast<std::uint32_t>(*record));
    });
  }

  // As into parameters, and averages of them.
  bool is_written_between_steps(std::uint32_t record) const {
    return calls_.is_preparation(record) && calls_.writes_in_place(record);
  }

  void note_prepared(const Run& run) {
    for (std::uint32_t i = 0; has_state_ && i < run.trace.records().size(); ++i) {
      if (run.parent(run.name(i)) != kPreparation) continue;
      for (const Item& item : run.items(i)) {
        if (is_tensor(item) && !is_input(item.part))
          result_.prepared.add(trace::facts_of(run.trace, item), {});
      }
    }
  }

  void visit_results(std::uint32_t record, const std::vector<Source>& sources, bool knows_sources) {
    Outcome& seen = effects_[record];
    const ItemPair* worst = nullptr;
    Measured of_worst;
    double reached = 0, high = 0;
    for (const ItemPair& row : calls_.rows_of(record)) {
      const Item& item = calls_.item(row);
      if (is_input(item.part)) continue;
      if (!row.reference) {
        const bool is_of_other_shape =
            item.kind == Item::Kind::kTensor && row.reason == trace::NoMatchReason::kShape;
        if (is_of_other_shape && !is_other_choice(row)) seen.visible = kInfinity;
        continue;
      }
      if (item.kind != Item::Kind::kTensor || calls_.says_nothing(row)) continue;
      seen.has_result = true;
      const Distance& apart = calls_.distance(row);
      high = std::max(high, apart.high);
      seen.out_is_equal &= apart.equal;
      if (is_module(calls_.name(record)) && !is_backward(calls_.name(record)))
        note_result_of_module(row, apart);
      if (apart.equal) continue;
      if (has_state_ && calls_.zone(record) == Zone::kModel) result_.results.add(calls_.facts(row), apart);
      if (is_written_between_steps(record)) result_.written.add(calls_.facts(row), apart);
      Measured measured = measure(row, places_.result(row, sources, knows_sources), apart);
      places_.keep(row, measured.place);
      seen.arrives |= measured.counts;
      stretch_.see(row, measured);
      reached = std::max(reached, apart.high / measured.allowed.cancelled);
      seen.visible = std::max(seen.visible, visible_in(record, row, measured));
      seen.later = std::max(seen.later, measured.later);
      const double strength = measured.strength;
      if (worst == nullptr || std::max(strength, measured.later) > std::max(seen.excess, of_worst.later)) {
        worst = &row;
        of_worst = std::move(measured);
      }
      seen.excess = std::max(seen.excess, strength);
    }
    if (calls_.zone(record) == Zone::kModel) places_.reach(record, reached);
    places_.keep_inside(record, high);
    if (seen.has_result && !seen.out_is_equal) note_module(record);
    const bool is_suspect = worst != nullptr && std::max(of_worst.strength, of_worst.later) >= 1;
    if (is_suspect && !seen.has_other_arguments) report_result(*worst, of_worst);
  }

  // What comes of something that is known to differ. A module by what goes into it, whatever happens inside;
  // so a call of which something cannot be compared, as a tensor of another shape (R3).
  double visible_in(std::uint32_t record, const ItemPair& row, const Measured& measured) const {
    const bool is_whole = model_.visible_by_what_goes_in &&
                          (is_module(calls_.name(record)) || !std::isfinite(measured.allowed.magnitude));
    if (!is_whole) return measured.strength;
    Tolerance whole;
    const double unit = std::max(calls_.unit(row), calls_.coarsest_unit());
    whole.magnitude = whole.bias = model_.through_calls(effects_[record].entered, unit);
    return measured.counts ? model_.excess(measured.apart, whole) : 0;
  }

  void note_module(std::uint32_t record) {
    const Outcome& seen = effects_[record];
    const std::string_view around =
        is_module(calls_.name(record)) ? calls_.name(record) : calls_.parent(record);
    double& known = result_.excess_of_modules[module_path(around)];
    known = std::max({known, seen.excess, seen.visible});
  }

  void report_result(const ItemPair& row, const Measured& measured) {
    Finding& finding = add(FindingKind::kOperator, row, {}, measured);
    const std::string item = std::exchange(finding.name, finding.record);
    finding.because = {finding.exact_before ? Clause{Reason::kResultOfEqual, {finding.name, item}}
                                            : Clause{Reason::kResult, {item}}};
    const std::string_view ours = calls_.target().text(calls_.item(row).dtype);
    const std::string_view theirs = calls_.reference().text(calls_.other_item(row)->dtype);
    if (ours != theirs)
      finding.because.push_back({Reason::kDtypes, {std::string(ours), std::string(theirs)}});
    if (is_collective(finding.name)) finding.kind = FindingKind::kReduction;
    if (measured.place.by.gain == Gain::kDraws) {
      finding.kind = FindingKind::kRandomness;
      finding.because.push_back({Reason::kRandom, {}});
    }
  }

  // ---- gradients of parameters

  void visit_gradients(std::uint32_t record) {
    if (!calls_.is_paired(record)) return;
    for (const ItemPair& row : calls_.rows_of(record)) {
      if (!row.reference) continue;
      const Distance apart = calls_.distance(row, calls_.negligible_gradient());
      result_.gradients_of_parameters.add(calls_.facts(row), apart);
      if (std::isfinite(apart.high)) result_.gradients = std::max(result_.gradients, apart.high);
      if (std::isfinite(apart.value) && apart.value > walk().largest_gradient.value) {
        walk().largest_gradient = {apart.value, calls_.item_name(row)};
      }
      if (apart.equal) continue;
      const Measured measured = measure(row, places_.gradient(row), apart);
      if (measured.strength < 1) continue;
      Finding& finding =
          add(FindingKind::kGradient, row, {Reason::kGradientOfRecord, {calls_.item_name(row)}}, measured);
      finding.phase = Phase::kGradients;
      finding.module = module_path(finding.record);
    }
  }

  // ---- R8: what comes of it

  void find_effect(const Unmeasured& one) {
    Finding& finding = walk().findings[one.finding];
    const Outcome& seen = effects_[one.record];
    if (seen.visible < 1 && seen.later >= 1) {
      finding.effect = seen.later;
      finding.counts_later = true;
      return;
    }
    const bool shows = !one.is_around && (seen.has_result || seen.visible > 0);
    finding.effect = shows ? effects_.in_call(one.record, one.decides)
                           : effects_.around(calls_.parent(one.record), false, one.record + 1);
    finding.is_hidden = one.decides && std::isinf(finding.effect) && model_.argument_of_equal
                            ? effects_.is_of_argument(one.record)
                            : model_.hidden_number && one.is_another_number && finding.effect < 1 &&
                                  !seen.in_is_equal && !seen.has_other_tensors;
  }

  // ---- calls of one run

  // A difference that comes out of calls which only one run has is theirs.
  bool note_unpaired(const ItemPair& row, const InputPlace& input, ItemIndex ours, double effect) {
    const std::uint32_t record = row.target_record;
    if (!calls_.is_after_backward(record) || calls_.is_in_backward(record)) {
      if (const auto change = places_.own_change(row, input, ours))
        effect = std::max(effect, beyond(row, change->apart, model_.tolerance(change->place)));
    }
    std::optional<std::uint32_t> extra;
    if (ours != kNoItem && calls_.ours().row_of(ours) == kNoRow)
      extra = unpaired_.of_target(calls_.ours().flow().record(ours));
    std::vector<std::uint32_t> groups;
    if (effect >= 1 && (input.source == kNoItem || ours == kNoItem)) groups = unpaired_.takers(record);
    if (extra) groups.push_back(*extra);
    if (input.of_unpaired) groups.push_back(*input.of_unpaired);
    for (const std::uint32_t group : groups) unpaired_.note(group, record, effect);
    return !groups.empty();
  }

  // The result of a module is that of the last call inside, which may be of one run only.
  void note_result_of_module(const ItemPair& row, const Distance& apart) {
    const ItemIndex source = calls_.theirs().origin(row.reference.index);
    if (!model_.result_of_module_alone || source == kNoItem ||
        !unpaired_.of_reference(calls_.theirs().flow().record(source)))
      return;
    const InputPlace input = places_.input(row);
    note_unpaired(row, input, calls_.ours().origin(row.target),
                  beyond(row, apart, model_.tolerance(input.place)));
  }

  void report_group(const UnpairedCalls& group) {
    const Phase phase = group.is_handling && has_state_ ? Phase::kReduction
                        : group.is_update               ? Phase::kUpdate
                        : group.around == "clip_grad"   ? Phase::kClipping
                                                        : Phase::kCalls;
    Finding& finding =
        found_.add(group.is_missing ? FindingKind::kMissingCall : FindingKind::kExtraCall, phase, group.name,
                   {group.is_missing ? Reason::kMissingCall : Reason::kExtraCall, {group.name}});
    // Without a call that takes them, what comes of the module around. What is changed in place leaves no
    // result.
    finding.effect = group.effect      ? *group.effect
                     : group.is_update ? kNaN
                                       : effects_.around(group.around, group.is_missing, group.next);
    if (group.is_update && finding.effect < 1) finding.effect = kNaN;
    finding.order = group.is_missing ? group.next - 0.5 : group.next;
    finding.module = module_path(group.around);
    finding.operator_name = operator_name(group.name);
    finding.record = group.name;
    finding.is_of_reference = group.is_missing;
    if (group.count > 1 && !is_module(group.name)) {
      finding.because.push_back(group.count == 2
                                    ? Clause{Reason::kAndTheNext, {}}
                                    : Clause{Reason::kAndMore, {std::to_string(group.count - 1)}});
    }
    finding.exact_before = places_.before(group.next) == 0;
  }

  // What they make of gradients, which an optimizer may get.
  void note_handled(const UnpairedCalls& group) {
    if (!has_state_ || !group.is_missing || !group.is_handling) return;
    const Trace& reference = calls_.reference();
    for (std::uint32_t record = group.first; record < group.first + group.count; ++record) {
      const Record& one = reference.records()[record];
      for (ItemIndex i = one.first_item; i < one.first_item + one.item_count; ++i) {
        const Item& item = reference.all_items()[i];
        if (is_tensor(item) && !is_input(item.part))
          result_.results.add(trace::facts_of(reference, item), places_.expected(i));
      }
    }
  }

  // ---- the whole step

  const Model& model_;
  const Calls& calls_;
  Unpaired unpaired_;
  CallPlaces places_;
  const StepWalk* before_;
  bool has_state_;
  SuspectsOfCalls result_;
  Findings found_;
  Effects effects_;
  Stretch stretch_;
  std::vector<Unmeasured> unmeasured_;
  bool is_optimizer_told_ = false, is_clipping_told_ = false;  // a tensor that goes into one of their calls
};

}  // namespace

SuspectsOfCalls suspects_of_calls(const Model& model, const DumpPair& pair,
                                  const std::vector<trace::RealMetrics>& metrics,
                                  const std::vector<Distance>& distances, const StepWalk* before,
                                  const trace::Json& target, const trace::Json& reference,
                                  const Observer& observer) {
  const Calls calls(model, pair, metrics, distances);
  const bool has_state = pair.target_state && pair.reference_state;
  const double gradients = arriving_gradients(calls, target, reference);
  // A batch that is divided otherwise has other losses, and gradients that add up to the same.
  const bool is_divided = target["inputs"].items().size() != reference["inputs"].items().size();
  const double losses = is_divided ? 0 : arriving_losses(calls, before, std::isfinite(gradients));
  const double arriving = std::max(gradients, losses);
  SuspectsOfCalls found = Walk(calls, before, has_state, arriving, observer).run();
  found.walk.divided_otherwise = is_divided;
  found.walk.losses_agree = losses <= most_of_losses(calls);
  return found;
}

}  // namespace msprobe::verdict

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/non_finite.h"
#include "verdict/findings.h"
#include "verdict/optimizer_settings.h"
#include "verdict/places_of_calls.h"
#include "verdict/places_of_entries.h"
#include "verdict/suspects_of_calls.h"

namespace msprobe::verdict {
namespace {

using compare::Left;
using operators::Gain;
using trace::Json;

// How far off a step may be by the rule of its optimizer, in what one rounding of each operator allows
// (docs/formats/diagnosis.md): the step is one call, which is made of others (R3).
double limit_of_rule(const Model& model) { return model.suspect * model.opaque * model.opaque; }

class StateWalk {
 public:
  StateWalk(const Model& model, const Json& target, const Json& reference, const compare::StepWalk* before,
            SuspectsOfCalls& calls, const Observer& observer)
      : model_(model),
        target_(target),
        reference_(reference),
        before_(before),
        calls_(calls),
        parameters_(common(target["parameters"], reference["parameters"])),
        found_(model, calls.walk, observer) {
    for (const EntryPair& one : parameters_) by_name_.emplace(one.name, &one);
  }

  void run() {
    random_state();
    inputs();
    other_names();
    parameters();
    buffers();
    modules();
    Reached reached = backward();
    walk().has_gradients = !reached.empty();
    clipping(reached);
    at_optimizer(reached);
    optimizer(reached);
    walk().has_state = true;
    found_.sort();
  }

 private:
  compare::StepWalk& walk() { return calls_.walk; }

  // ---- what the step begins with

  void random_state() {
    for (const EntryPair& one : common(target_["rng"]["start"], reference_["rng"]["start"])) {
      if (*one.target == *one.reference) continue;
      found_.add(FindingKind::kRandomness, Phase::kRandomState, "rng." + one.name,
                 {Reason::kRandomState, {one.name}});
    }
  }

  // What is measured at one moment of the step, and how it is told.
  struct Moment {
    FindingKind kind;
    Phase phase;
    Reason reason;
    std::string prefix = {};  // of names
  };

  // By what explains each of them. How far off they are, for what is made of them.
  template <typename PlaceOf>
  Reached visit(const Moment& moment, const std::vector<EntryPair>& entries, const PlaceOf& place_of_entry) {
    Reached reached;
    for (const EntryPair& entry : entries) {
      if (entry.target->is_null() && entry.reference->is_null()) continue;  // no gradient
      const Source& source = reached[entry.name] = source_at(entry);
      if (source.distance.equal) continue;
      ++walk().differing;
      const std::string name = moment.prefix + entry.name;
      const Measured measured =
          found_.measure(place_of_entry(entry), source.distance, true, [&] { return std::string(name); });
      if (measured.strength < 1) continue;
      Finding& finding = found_.add(moment.kind, moment.phase, name, {moment.reason, {entry.name}}, measured);
      finding.module = module_of(entry.of);
      if (entry.facts && tensor_of(*entry.target)) continue;
      finding.target_value = shown(*entry.target);
      finding.reference_value = shown(*entry.reference);
    }
    return reached;
  }

  template <typename PlaceOf>
  Reached visit_together(const Moment& moment, const Json& ours, const Json& theirs,
                         const PlaceOf& place_of_entry) {
    const std::vector<EntryPair> entries = measured_together(model_, common(ours, theirs));
    Reached reached = visit(moment, entries, place_of_entry);
    for (const EntryPair& entry : entries) latest_.insert_or_assign(entry.name, entry);
    return reached;
  }

  // What one side has alone.
  void visit_alone(const Moment& moment, const std::string& what, const Json& ours, const Json& theirs) {
    const auto add = [&](Reason reason, const Json& has, const Json& lacks) {
      for (const std::string& name : has.keys()) {
        if (lacks.find(name) != nullptr) continue;
        found_.add(moment.kind, moment.phase, moment.prefix + name, {reason, {what, name}}).module =
            module_of(name);
      }
    };
    add(Reason::kOnlyTargetHas, ours, theirs);
    add(Reason::kOnlyReferenceHas, theirs, ours);
  }

  void inputs() {
    const auto &ours = target_["inputs"].items(), &theirs = reference_["inputs"].items();
    // Calls of the model have no names. Where there are more in one run, the first ones go together alone.
    const std::size_t shared =
        ours.size() == theirs.size() ? ours.size() : std::min<std::size_t>(ours.size(), 1);
    for (std::size_t call = 0; call < std::min(shared, theirs.size()); ++call) {
      const Moment moment{FindingKind::kInputData, Phase::kInputs, Reason::kInputDiffers,
                          ours.size() > 1 ? "inputs." + std::to_string(call) + "." : "inputs."};
      const Json &a = ours[call]["tensors"], &b = theirs[call]["tensors"];
      std::vector<EntryPair> entries = common(a, b);
      for (EntryPair& entry : entries) entry.of.clear();
      visit(moment, entries,
            [&](const EntryPair& entry) { return call == 0 ? given(entry) : given_again(entry); });
      visit_alone(moment, "input", a, b);
    }
    found_.add_counts(Phase::kInputs, "model", "the model is called", ours.size(), theirs.size());
  }

  // Data of later steps may be made with the model: samples, a game that was played.
  Place given(const EntryPair& entry) const {
    if (is_prepared(entry)) return place_by(Rule::kUnknown, tensor_at(entry));
    const bool is_read = before_ == nullptr || tensor_at(entry).unit == 0;
    if (is_read) return given_data(tensor_at(entry));
    return place_through(farthest(parameters_), coarsest(entry));
  }

  // A call that is recorded made it, and is judged.
  bool is_prepared(const EntryPair& entry) const {
    const auto ours = tensor_of(*entry.target), &theirs = entry.facts;
    return model_.prepared && ours && theirs &&
           (calls_.prepared.find(*ours) != nullptr || calls_.prepared.find(*theirs) != nullptr);
  }

  // What is given to another call of a model, as the state of a recurrent one, may be a result of this step.
  Place given_again(const EntryPair& entry) const {
    const metrics::Distance* const made = result_of_step(entry);
    return made == nullptr ? given(entry) : kept(entry, *made);
  }

  const metrics::Distance* result_of_step(const EntryPair& entry) const {
    return entry.facts && model_.given_again ? calls_.results.find(*entry.facts) : nullptr;
  }

  void other_names() {
    const auto& names = walk().other_names;
    if (names.empty()) return;
    const auto& [reference, target] = *names.begin();
    found_
        .add(FindingKind::kWeight, Phase::kParameters, target,
             {Reason::kOtherNames, {target, reference, std::to_string(names.size())}})
        .effect = 0;  // a name computes nothing
  }

  void parameters() {
    const Moment moment{FindingKind::kWeight, Phase::kParameters,
                        before_ == nullptr ? Reason::kParameterDiffers : Reason::kParameterMoved};
    at_start_ = visit(moment, parameters_, [this](const EntryPair& entry) {
      if (const metrics::Distance* const made = written(entry)) return kept(entry, *made);
      return before_ == nullptr || !entry.facts
                 ? origin(entry)
                 : left_behind(model_, *before_, entry.name, *entry.facts, tensor_at(entry));
    });
    visit_alone(moment, "parameter", target_["parameters"], reference_["parameters"]);
    for (const EntryPair& one : parameters_) {
      const Json &a = (*one.target)["requires_grad"], &b = (*one.reference)["requires_grad"];
      if (a == b) continue;
      found_
          .add_values(FindingKind::kWeight, Phase::kParameters, one.name, Reason::kRequiresGrad, {one.name},
                      shown(a), shown(b))
          .module = module_of(one.name);
    }
  }

  // By a call between the steps.
  const metrics::Distance* written(const EntryPair& entry) const {
    return entry.facts && model_.prepared ? calls_.written.find(*entry.facts) : nullptr;
  }

  // The running means of all normalisations are measured together, as some are 0 but for rounding.
  void buffers() {
    const Moment moment{FindingKind::kBuffer, Phase::kBuffers,
                        before_ == nullptr ? Reason::kBufferDiffers : Reason::kBufferMoved};
    std::vector<EntryPair> entries = common(target_["buffers"], reference_["buffers"]);
    for (EntryPair& entry : entries) entry.kind = entry.name.substr(entry.name.rfind('.') + 1);
    if (before_ != nullptr) entries = measured_together(model_, std::move(entries));
    visit(moment, entries, [&](const EntryPair& entry) {
      const auto averaged = by_name_.find(entry.name.substr(entry.name.find('.') + 1));
      return buffer_place(entry, averaged == by_name_.end() ? nullptr : averaged->second);
    });
    visit_alone(moment, "buffer", target_["buffers"], reference_["buffers"]);
  }

  // An average of a parameter, as a copy of the model has it under its own name, is made of what it was, and
  // of the parameter. Other buffers are left by the calls.
  Place buffer_place(const EntryPair& entry, const EntryPair* averaged) {
    if (const metrics::Distance* const made = written(entry)) return kept(entry, *made);
    if (before_ == nullptr) return origin(entry);
    if (averaged == nullptr || !model_.averaged_weights || !averaged->facts ||
        !((*averaged->reference)["shape"] == (*entry.reference)["shape"]))
      return through_all(entry, before_->noise);
    const std::string key = "buffer." + entry.name;
    walk().left[key].error = entry_distance(*entry.target, *entry.reference).expected;
    const auto left = before_->left.find(key);
    Place place = kept(entry, of_error(left == before_->left.end() ? 0 : left->second.error));
    place.sources.insert(place.sources.begin(), source_at(*averaged));
    return place;
  }

  void setting(const std::string& path, const std::string& name, const Json& ours, const Json& theirs) {
    if (ours == theirs) return;
    Finding& finding = found_.add_values(
        FindingKind::kModuleAttribute, Phase::kModules, path.empty() ? name : path + "." + name,
        Reason::kModuleSetting, {path.empty() ? "(the model)" : path, name}, shown(ours), shown(theirs));
    finding.module = path;
    const auto a = number_of(ours), b = number_of(theirs);
    const bool is_other_number = a && b && (*a != std::floor(*a) || *b != std::floor(*b));
    const auto seen = calls_.excess_of_modules.find(path);
    if (seen != calls_.excess_of_modules.end()) {
      finding.effect = seen->second;
    } else if (!calls_.excess_of_modules.empty()) {
      finding.effect = 0;
    }
    finding.is_hidden = model_.hidden_number && is_other_number && finding.effect < 1 && walk().noise > 0;
  }

  void modules() {
    for (const EntryPair& module : common(target_["modules"], reference_["modules"])) {
      for (const std::string_view key : {"class", "training"}) {
        setting(module.name, std::string(key), (*module.target)[key], (*module.reference)[key]);
      }
      for_each_differing(
          (*module.target)["settings"], (*module.reference)["settings"], "",
          [&](const std::string& name, const Json& a, const Json& b) { setting(module.name, name, a, b); });
    }
  }

  // ---- what becomes of the gradients

  // Both states are put together of those of several ranks (docs/layouts.md).
  bool is_joined() const {
    return target_["joined"].text() == "true" && reference_["joined"].text() == "true";
  }

  // As it is under autocast, until it is cast back.
  Tensor coarsest(const EntryPair& entry) const {
    Tensor tensor = tensor_at(entry);
    tensor.unit = std::max(tensor.unit, calls_.walk.unit);
    return tensor;
  }

  // Of one batch and equal weights, divided over ranks in two ways: R3 for the forward pass, of which no call
  // is compared, and twice for the backward pass.
  Place computed_in_parts(const EntryPair& entry) const {
    const Tensor tensor = tensor_at(entry);
    const double unit = coarsest(entry).unit;
    double through = 0;
    for (const auto& [name, one] : at_start_) {
      if (std::isfinite(one.distance.high)) through = std::max(through, one.distance.high);
    }
    for (int pass = 0; pass < 3; ++pass) through = model_.through_calls(through, unit);
    if (is_coarse(unit)) through = std::min(through, model_.through_pass(unit));
    return place_by(Rule::kSameValue, tensor, {source_of(of_error(through), tensor)});
  }

  Place gradient_place(const EntryPair& entry) const {
    // Of calls only modules are joined, and of their backward passes no gradients of weights.
    if (is_joined()) return computed_in_parts(entry);
    if (calls_.walk.compared == 0) return place_by(Rule::kUnknown, tensor_at(entry));
    const metrics::Distance* const made =
        entry.facts ? calls_.gradients_of_parameters.find(*entry.facts) : nullptr;
    if (made != nullptr) return kept(entry, *made);
    return place_through(std::max(calls_.walk.noise, calls_.gradients), coarsest(entry), 2);
  }

  Reached backward() {
    const auto &ours = target_["backward"].items(), &theirs = reference_["backward"].items();
    Reached reached;
    // Where a batch is divided otherwise, only what all parts add up to is the same.
    const std::size_t both = std::min(ours.size(), theirs.size());
    for (std::size_t i = ours.size() == theirs.size() || both == 0 ? 0 : both - 1; i < both; ++i) {
      const Json &a = ours[ours.size() - both + i], &b = theirs[theirs.size() - both + i];
      const Reached local = visit_together({FindingKind::kGradient, Phase::kGradients, Reason::kGradient},
                                           a["before_reduction"], b["before_reduction"],
                                           [&](const EntryPair& entry) { return gradient_place(entry); });
      const bool is_reduced = !local.empty();
      const Reached now =
          visit_together({is_reduced ? FindingKind::kReduction : FindingKind::kGradient,
                          is_reduced ? Phase::kReduction : Phase::kGradients, Reason::kReducedGradient},
                         a["after_reduction"], b["after_reduction"], [&](const EntryPair& entry) {
                           return local.contains(entry.name) ? after(local, entry) : gradient_place(entry);
                         });
      for (const auto& [name, one] : now) reached[name] = one;  // of others an earlier pass is the last
      for (const auto& [name, one] : is_reduced ? local : now) {
        if (!one.distance.equal) walk().given[name] = one.error() * one.tensor.norm;
      }
    }
    found_.add_counts(Phase::kGradients, "backward", "backward() runs", ours.size(), theirs.size());
    for (const auto& [name, one] : reached) {
      if (std::isfinite(one.distance.value) && one.distance.value > walk().largest_gradient.value) {
        walk().largest_gradient = {one.distance.value, name};
      }
    }
    return reached;
  }

  // The calls that clip a gradient: one that is given none, as an iterator that was read before, clips
  // nothing.
  static std::vector<const Json*> clippings(const Json& state) {
    std::vector<const Json*> found;
    for (const Json& one : state["clipping"].items()) {
      if (!one["before"].is_object() || !one["before"].keys().empty()) found.push_back(&one);
    }
    return found;
  }

  // Unchanged, or multiplied by one number: its largest element is as large beside all.
  bool is_scaled(const Json& before, const Json& now) const {
    const auto one = tensor_of(before), other = tensor_of(now);
    if (!one || !other) return true;
    const double was = one->largest() * other->typical(), is = other->largest() * one->typical();
    return std::abs(was - is) <=
           model_.suspect * model_.own_rounding(metrics::unit_roundoff(other->dtype)) * was;
  }

  // A gradient as it was, where one of the runs has it so. What calls of both make of it they tell: the
  // result of one of them, or all that they are off by.
  Place handed_on(const Reached& reached, const EntryPair& entry) {
    const auto before = latest_.find(entry.name);
    const bool is_kept = before == latest_.end() || is_scaled(*before->second.target, *entry.target) ||
                         is_scaled(*before->second.reference, *entry.reference);
    if (is_kept || reached.empty() || !model_.made_of_gradients) {
      const bool is_same =
          before == latest_.end() || (*before->second.reference)["norm"] == (*entry.reference)["norm"];
      return is_same ? after(reached, entry) : clipped(model_, reached, entry);  // by hand
    }
    walk().has_gradients = false;  // then their calls decide
    if (const metrics::Distance* const made = result_of_step(entry)) return kept(entry, *made);
    return place_through(std::max(calls_.walk.noise, calls_.gradients), coarsest(entry), 2);
  }

  void clipping(Reached& reached) {
    const auto ours = clippings(target_), theirs = clippings(reference_);
    before_clipping_ = reached;
    for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
      const Json &a = *ours[i], &b = *theirs[i];
      for (const std::string_view part : {"function", "arguments"}) {
        for_each_differing(a[part], b[part], "clipping." + std::string(part),
                           [&](const std::string& key, const Json& one, const Json& other) {
                             found_.add_values(FindingKind::kClipping, Phase::kClipping, key,
                                               Reason::kClippingSetting, {key}, shown(one), shown(other));
                             note_way_of_clipping();
                           });
      }
      const Reached before =
          visit_together({FindingKind::kGradient, Phase::kReduction, Reason::kBeforeClipping}, a["before"],
                         b["before"], [&](const EntryPair& entry) { return handed_on(reached, entry); });
      for (const auto& [name, one] : before)
        walk().before_clipping = std::max(walk().before_clipping, one.distance.low);
      const Reached& known = before.empty() ? reached : before;
      if (i == 0) before_clipping_ = known;
      const Reached after =
          visit_together({FindingKind::kClipping, Phase::kClipping, Reason::kClippedGradient}, a["after"],
                         b["after"], [&](const EntryPair& entry) { return clipped(model_, known, entry); });
      for (const auto& [name, one] : after) reached[name] = one;  // others are clipped by another call
    }
    if (ours.size() == theirs.size()) return;
    found_.add_counts(Phase::kClipping, "clipping", "gradients are clipped", ours.size(), theirs.size());
    walk().findings.back().kind = FindingKind::kClipping;
    note_way_of_clipping();
  }

  void note_way_of_clipping() {
    walk().findings.back().effect = kInfinity;  // until it is known
    ways_of_clipping_.push_back(walk().findings.size() - 1);
  }

  // Another way to clip is a cause where the optimizer gets other gradients than before the clipping. All of
  // them are multiplied by one number, and errors average out in their norm, a bias does not.
  void find_effect_of_clipping(const Json& ours, const Json& theirs) {
    if (ways_of_clipping_.empty() || before_clipping_.empty()) return;
    double target = 0, reference = 0, count = 0, unit = 0, bias = 0;  // squares of both
    for (const EntryPair& entry : common(ours, theirs)) {
      const auto a = tensor_of(*entry.target), &b = entry.facts;
      if (!a || !b) continue;
      target += a->squares();
      reference += b->squares();
      count += b->count;
      unit = std::max(unit, metrics::unit_roundoff(b->dtype));
      for (const Source& one : after(before_clipping_, entry).sources)
        bias = std::max(bias, one.distance.bias);
    }
    if (reference == 0) return;
    const double error = bias + largest_of(before_clipping_).error() / std::sqrt(count);
    const double effect = std::abs(std::sqrt(target / reference) - 1) /
                          (model_.suspect * model_.through_calls(error, unit));  // R3
    for (const std::size_t index : ways_of_clipping_) walk().findings[index].effect = effect;
  }

  void at_optimizer(Reached& reached) {
    const auto &ours = target_["gradients_at_optimizer"].items(),
               &theirs = reference_["gradients_at_optimizer"].items();
    for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
      const Json &a = ours[i]["gradients"], &b = theirs[i]["gradients"];
      const Reached now = visit_together(
          {FindingKind::kGradient, Phase::kAtOptimizer, Reason::kGradientAtOptimizer}, a, b,
          [&](const EntryPair& entry) {
            return ways_of_clipping_.empty() ? handed_on(reached, entry) : clipped(model_, reached, entry);
          });
      if (i == 0) find_effect_of_clipping(a, b);
      for (const auto& [name, one] : now) reached[name] = one;
    }
  }

  // ---- the optimizer

  Reached states(const Json& ours, const Json& theirs, bool is_after, const Reached& before,
                 const Reached& gradients) {
    const std::string_view moment = is_after ? "state_after" : "state_before";
    std::vector<EntryPair> entries;
    for (const EntryPair& parameter : common(ours[moment], theirs[moment])) {
      for (EntryPair& state : common(*parameter.target, *parameter.reference)) {
        state.kind = std::exchange(state.name, parameter.name + "." + state.name);
        state.of = parameter.name;
        entries.push_back(std::move(state));
      }
    }
    std::ranges::stable_sort(entries, {}, &EntryPair::kind);
    return visit({FindingKind::kOptimizerState, is_after ? Phase::kUpdate : Phase::kOptimizerState,
                  is_after ? Reason::kStateAfter : Reason::kStateBefore},
                 measured_together(model_, std::move(entries)), [&](const EntryPair& entry) {
                   if (!is_after) return state_before(entry);
                   // What evaluates again, as L-BFGS, steps along quotients of differences of gradients.
                   if (theirs[moment][entry.of].find("func_evals") != nullptr)
                     return place_by(Rule::kUnknown, tensor_at(entry));
                   if (const metrics::Distance* const made = by_own_rule(theirs, entry))
                     return kept(entry, *made);
                   Place place = state_after(entry, before, gradients);
                   if (holds_steps(theirs, entry.kind))
                     step_by(entry, theirs["state_before"][entry.of][entry.kind], place);
                   return place;
                 });
  }

  // The result of a call of an optimizer that steps by a rule of its own, which its calls tell.
  const metrics::Distance* by_own_rule(const Json& step, const EntryPair& entry) const {
    const bool has_known_rule = !step["update"]["rule"].text().empty();
    return has_known_rule || !entry.facts || !model_.own_rule ? nullptr
                                                              : calls_.walk.updated.find(*entry.facts);
  }

  Place state_before(const EntryPair& entry) const {
    // Of gradients of another pass, as Sophia does.
    if (result_of_step(entry) != nullptr)
      return place_through(std::max(calls_.gradients, farthest(parameters_)), coarsest(entry), 2);
    if (before_ == nullptr) return origin(entry);
    const auto left = before_->left.find("state." + entry.name);
    if (left == before_->left.end()) return through_all(entry, before_->noise);
    return kept(entry, of_error(left->second.error));
  }

  // Where one of the runs steps by the rule of its optimizer, and the other does not.
  void rule(const Json& ours, const Json& theirs) {
    const auto a = number_of(ours["off"]), b = number_of(theirs["off"]);
    const double most = limit_of_rule(model_);
    if (!model_.rule_of_optimizer || !a || !b || (*a > most) == (*b > most)) return;
    const bool is_ours = *a > *b;
    const Json& other = is_ours ? ours : theirs;
    const std::string parameter(other["parameter"].text());
    Finding& finding = found_.add(FindingKind::kUpdate, Phase::kUpdate, "optimizer.step",
                                  {is_ours ? Reason::kOtherRule : Reason::kOtherRuleOfReference,
                                   {std::string(other["rule"].text()), std::string(other["of"].text()),
                                    parameter, digits_of(std::max(*a, *b), 2)}});
    finding.module = module_of(parameter);
    finding.strength = std::max(*a, *b) / most;
    finding.exact_before = true;
  }

  // For the next step: how far off a parameter was, and what made its step.
  void leave_parameters(const Json& step, const Reached& gradients, const Reached& states,
                        bool same_settings) {
    for (const Json& group : step["groups"].items()) {
      for (const Json& one : group["parameters"].items()) {
        const std::string name(one.text());
        const auto entry = by_name_.find(name);
        if (entry == by_name_.end()) continue;
        if (!entry->second->facts) continue;
        Left& left = leave(name, *entry->second->facts);
        const auto gradient = gradients.find(name);
        if (!same_settings || gradient == gradients.end()) {
          left.error_of_step = 1;
        } else {
          left.error_of_step = std::max(left.error_of_step, gradient->second.error());
          for (const auto& [state, apart] : states) {
            if (state.starts_with(name + "."))
              left.error_of_step = std::max(left.error_of_step, apart.error());
          }
        }
      }
    }
  }

  // As the step began with it.
  Left& leave(const std::string& name, metrics::TensorFacts facts) {
    facts.checksum = {};  // of a file that may be closed by the next step
    walk().parameters.insert_or_assign(name, facts);
    Left& left = walk().left[name];
    const double error = at_start_.at(name).distance.expected;
    left.error = std::isfinite(error) ? error : 0;
    return left;
  }

  void optimizer(const Reached& at_optimizer) {
    const auto &ours = target_["optimizer"].items(), &theirs = reference_["optimizer"].items();
    found_.add_counts(Phase::kOptimizerSetting, "optimizer.step", "the optimizer steps", ours.size(),
                      theirs.size());
    for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
      const Json &one = ours[i], &other = counterpart(ours, i, theirs);
      const bool same_settings = add_optimizer_settings(found_, one, other, largest_of_norms(at_optimizer));
      const Reached gradients = with_decay(model_, other, at_start_, at_optimizer);
      const Reached before = states(one, other, false, {}, gradients);
      const Reached made = states(one, other, true, before, gradients);
      rule(one["update"], other["update"]);
      for (const auto& [name, state] : made) walk().left["state." + name].error = state.distance.high;
      leave_parameters(other, gradients, before, same_settings);
    }
    // Those of another optimizer, whose turn it is not, stay as they are.
    for (const EntryPair& one : parameters_) {
      if (one.facts && !walk().left.contains(one.name)) leave(one.name, *one.facts);
    }
  }

  // Of several optimizers, which may step in any order, and more than once: the step of the reference by the
  // one with the same parameters, as often as it has stepped before.
  static const Json& counterpart(const std::vector<Json>& ours, std::size_t place,
                                 const std::vector<Json>& theirs) {
    const std::string_view first = first_parameter(ours[place]);
    auto earlier = std::count_if(ours.begin(), ours.begin() + static_cast<std::ptrdiff_t>(place),
                                 [&](const Json& one) { return first_parameter(one) == first; });
    for (const Json& one : theirs) {
      if (first_parameter(one) == first && earlier-- == 0) return one;
    }
    return theirs[place];
  }

  static std::string_view first_parameter(const Json& optimizer) {
    for (const Json& group : optimizer["groups"].items()) {
      for (const Json& name : group["parameters"].items()) return name.text();
    }
    return {};
  }

  const Model& model_;
  const Json& target_;
  const Json& reference_;
  const compare::StepWalk* before_;
  SuspectsOfCalls& calls_;
  const std::vector<EntryPair> parameters_;
  std::map<std::string_view, const EntryPair*> by_name_;  // parameters
  Findings found_;
  Reached at_start_;                                      // parameters
  Reached before_clipping_;                               // gradients
  std::map<std::string, EntryPair, std::less<>> latest_;  // the same, at the moment before
  std::vector<std::size_t> ways_of_clipping_;             // findings
};

}  // namespace

void add_suspects_of_state(const Model& model, const Json& target, const Json& reference,
                           const compare::StepWalk* before, SuspectsOfCalls& calls,
                           const Observer& observer) {
  StateWalk(model, target, reference, before, calls, observer).run();
}

}  // namespace msprobe::verdict

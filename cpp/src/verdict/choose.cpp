// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "msprobe/step_walk.h"
#include "msprobe/thread_pool.h"
#include "msprobe/verdict.h"
#include "verdict/names.h"
#include "verdict/other_names.h"
#include "verdict/suspects_of_calls.h"

namespace msprobe::compare {

using verdict::is_backward;
using verdict::is_module;
using verdict::module_path;

namespace {

constexpr std::size_t kMostCulprits = 3;
constexpr std::size_t kMostNotes = 50;  // more is no note

// Confidence, see confidence().
constexpr double kExact = 0.95, kLeast = 0.5, kMostInNoise = 0.9, kHidden = 0.3;

std::string key_of(const Finding& finding) {
  return std::to_string(finding.step) + '|' + std::to_string(finding.rank) + '|' +
         std::to_string(static_cast<int>(finding.phase)) + '|' + finding.name;
}

bool is_measured(const Finding& finding) { return std::isfinite(finding.distance.low); }

bool is_lone_call(const Finding& finding) {
  return finding.kind == FindingKind::kMissingCall || finding.kind == FindingKind::kExtraCall;
}

class Judge {
 public:
  Judge(const verdict::Model& model, std::span<const StepWalk* const> walks, const KnownNoise* noise)
      : model_(model), noise_(noise) {
    for (const StepWalk* walk : walks) {
      for (const Finding& finding : walk->findings) findings_.push_back(&finding);
      walks_.emplace(std::pair(walk->step, walk->rank), walk);
      nothing_comes_later_ &= walk->gradients_agree() && walk->losses_agree;
      differing_ += walk->differing;
      auto& given = given_[walk->step];
      for (const auto& [name, error] : walk->given) given[name] += error;
    }
    nothing_comes_later_ &= given_.size() > 1;  // steps
    std::stable_sort(findings_.begin(), findings_.end(),
                     [](const Finding* a, const Finding* b) { return a->place() < b->place(); });
    is_same_training_ = model_.same_training && nothing_comes_later_ && ends_alike();
    note_what_follows();
    for (std::size_t i = 0; i < findings_.size(); ++i) is_culprit_.push_back(is_culprit(i));
    all_by_chance_ = model_.chance && are_by_chance();
  }

  std::vector<const Finding*> culprits() const {
    std::vector<const Finding*> found;
    for (std::size_t i = 0; i < findings_.size(); ++i) {
      if (is_cause(i)) found.push_back(findings_[i]);
    }
    if (model_.random_state) add_random_state(found);
    return found;
  }

  /// What differs, and is no cause, as nothing comes of it. What is a cause at one step is so at the others,
  /// where its effect cannot be told from what went before.
  std::vector<Because> notes(std::span<const StepWalk* const> walks) const {
    std::vector<Because> notes;
    std::unordered_set<std::string> causes;
    for (std::size_t i = 0; i < findings_.size(); ++i) {
      if (is_cause(i)) causes.insert(text_of(findings_[i]->because, Language::kEnglish));
    }
    std::unordered_set<std::string> known;  // what every step says is said once
    const auto add = [&](Because note) {
      if (known.insert(text_of(note, Language::kEnglish)).second) notes.push_back(std::move(note));
    };
    for (std::size_t i = 0; i < findings_.size(); ++i) {
      const Finding& finding = *findings_[i];
      if (finding.phase == Phase::kRandomState || finding.because.empty() || is_cause(i)) continue;
      if (causes.contains(text_of(finding.because, Language::kEnglish))) continue;
      Because note = finding.because;
      note.push_back(is_culprit_[i] ? Clause{Reason::kByChance, {std::to_string(differing_)}}
                                    : Clause{Reason::kNoConsequence, {}});
      add(std::move(note));
    }
    for (const StepWalk* walk : walks) {
      if (!walk->stranger.empty()) add(walk->stranger);
    }
    if (notes.size() > kMostNotes) {
      const std::size_t more = notes.size() - kMostNotes;
      notes.resize(kMostNotes);
      notes.push_back({{Reason::kMoreNotes, {std::to_string(more)}}});
    }
    return notes;
  }

 private:
  // Empty where none of the walks is of the finding's step and rank.
  const StepWalk& walk_of(const Finding& finding) const {
    static const StepWalk none;
    const auto found = walks_.find({finding.step, finding.rank});
    return found == walks_.end() ? none : *found->second;
  }

  bool is_culprit(std::size_t index) const {
    const Finding& finding = *findings_[index];
    if (finding.phase == Phase::kRandomState || (finding.counts_later && nothing_comes_later_)) return false;
    const bool is_of_data = finding.phase == Phase::kInputs || finding.phase == Phase::kCalls ||
                            finding.phase == Phase::kGradients;
    const StepWalk& walk = walk_of(finding);
    if (model_.divided_otherwise && is_of_data && walk.divided_otherwise && walk.gradients_agree())
      return false;
    if (is_same_training_ && finding.phase <= Phase::kGradients &&
        finding.kind != FindingKind::kModuleAttribute)
      return false;
    if (is_measured(finding)) return is_suspect(finding) && !(finding.effect < 1);  // NaN: not looked for
    return known_noise(finding) == 0 && !is_given_by_others(finding) && has_effect(index);
  }

  // Losses, gradients and all that a step leaves are off by no more than one pass of rounding in float32, in
  // every step: the runs train the same, whatever they compute on the way.
  bool ends_alike() const {
    const double most = model_.suspect * model_.through_pass(metrics::unit_roundoff(DType::kFloat32));
    const bool all_arrive = std::ranges::all_of(walks_, [&](const auto& walk) {
      return std::max(walk.second->arriving, walk.second->before_clipping) <= most;
    });
    // Clipping may hide what gradients are off by.
    return all_arrive && std::ranges::none_of(findings_, [&](const Finding* one) {
             const bool is_left = one->kind == FindingKind::kWeight || one->kind == FindingKind::kBuffer ||
                                  one->kind == FindingKind::kOptimizerState ||
                                  (one->kind == FindingKind::kGradient && one->phase >= Phase::kGradients);
             return is_left && is_suspect(*one) && !(one->effect < 1);
           });
  }

  double known_noise(const Finding& finding) const {
    return noise_ == nullptr ? 0 : noise_->strength(finding, model_.suspect);
  }

  // What is measured.
  bool is_suspect(const Finding& finding) const {
    return finding.strength >= std::max(1.0, model_.suspect * known_noise(finding)) &&
           !(finding.counts_later && nothing_comes_later_) && !is_given_by_others(finding);
  }

  // An error is z times as large as expected with a probability below exp(-z^2 / 2), as of a normal
  // distribution, and one of n errors is with n times that: all of them are suspect together where one is
  // beyond a limit that is as seldom exceeded by chance as `suspect` is by one alone.
  bool are_by_chance() const {
    const auto places = static_cast<double>(std::max<std::uint64_t>(differing_, 1));
    const double limit = std::sqrt(model_.suspect * model_.suspect + 2 * std::log(places)) / model_.suspect;
    const auto is_beyond = [&](const Finding& one) {
      return one.is_hidden || !((is_measured(one) ? one.strength : one.effect) < limit);
    };
    for (std::size_t i = 0; i < findings_.size(); ++i) {
      if (is_culprit_[i] && is_beyond(*findings_[i])) return false;
    }
    return true;
  }

  bool is_cause(std::size_t index) const { return is_culprit_[index] && !all_by_chance_; }

  // A collective hands on what other ranks are off by, a reduction of gradients too, whoever calls it.
  bool is_given_by_others(const Finding& finding) const {
    const bool is_of_gradients = finding.phase == Phase::kReduction || finding.phase == Phase::kAtOptimizer;
    if (finding.kind != FindingKind::kReduction && !is_of_gradients) return false;
    const bool is_received = finding.operator_name.ends_with("recv");
    const std::string_view name = is_of_gradients ? finding.name : is_received ? kSent : finding.record;
    const auto in_step = given_.find(finding.step);
    if (in_step == given_.end()) return false;
    const auto all = in_step->second.find(name);
    if (all == in_step->second.end()) return false;
    const auto& own = walk_of(finding).given;
    const auto here = own.find(std::string(name));
    const double others = all->second - (here == own.end() ? 0 : here->second);
    return others > 0 && finding.distance.low * finding.distance.norm <= model_.suspect * others;
  }

  // Whether something comes of a setting, an argument or a call that only one run has.
  bool has_effect(std::size_t index) const {
    const Finding& finding = *findings_[index];
    if (finding.is_hidden || shows_in_a_buffer(finding)) return true;
    const StepWalk& walk = walk_of(finding);
    const bool is_of_state = finding.phase == Phase::kUpdate || finding.phase == Phase::kClipping ||
                             (finding.phase == Phase::kReduction && walk.has_gradients);
    if (is_of_state && (is_lone_call(finding) || finding.kind == FindingKind::kArgument) && walk.has_state)
      return model_.weights_tell && shows_in_state(index);
    if (std::isfinite(finding.effect)) return finding.effect >= 1;
    // How something is done is no difference in what is done: the gradients of the step tell.
    const bool is_told_by_gradients =
        model_.gradients_agree && finding.phase <= Phase::kGradients && walk.gradients_agree();
    const bool is_of_optimizer = finding.phase == Phase::kOptimizerSetting && is_lone_call(finding);
    const bool may_be_harmless = std::isnan(finding.effect) && !is_of_optimizer &&
                                 (is_lone_call(finding) || finding.kind == FindingKind::kModuleAttribute ||
                                  finding.kind == FindingKind::kOptimizerSetting);
    return (!is_told_by_gradients && !may_be_harmless) || is_followed(index);
  }

  // The training state tells of gradients, settings and states by their names: what calls make of gradients,
  // by what the optimizer gets; what an optimizer does, by the weights that it leaves.
  bool shows_in_state(std::size_t index) const {
    const Finding &finding = *findings_[index], *const next = next_[index];
    if (next == nullptr) return false;
    if (finding.phase == Phase::kReduction)
      return next->phase == Phase::kAtOptimizer && next->step == finding.step;
    return finding.phase == Phase::kUpdate && next->kind == FindingKind::kWeight &&
           next->step == finding.step + 1;
  }

  void note_what_follows() {
    next_.resize(findings_.size());
    const Finding* next = nullptr;
    for (std::size_t i = findings_.size(); i-- > 0;) {
      const Finding& finding = *findings_[i];
      next_[i] = next;
      if (!is_suspect(finding)) continue;
      if (is_measured(finding)) next = &finding;
      if (finding.kind == FindingKind::kBuffer) buffers_.try_emplace(finding.module, &finding);
    }
  }

  // As the momentum of a batch normalisation does, one step later.
  bool shows_in_a_buffer(const Finding& finding) const {
    if (!model_.shows_in_a_buffer || finding.kind != FindingKind::kModuleAttribute) return false;
    const auto last = buffers_.find(finding.module);
    return last != buffers_.end() && last->second->place() > finding.place();
  }

  // Something in the rest of the step is farther off than it may be; what an optimizer does shows in the next
  // one.
  bool is_followed(std::size_t index) const {
    const Phase phase = findings_[index]->phase;
    const bool shows_later = phase == Phase::kUpdate || phase == Phase::kOptimizerSetting;
    const int last = findings_[index]->step + (shows_later ? 1 : 0);
    return next_[index] != nullptr && next_[index]->step <= last;
  }

  // A random operator that differs first is not to blame when its generator stood elsewhere.
  void add_random_state(std::vector<const Finding*>& culprits) const {
    if (culprits.empty() || culprits.front()->kind != FindingKind::kRandomness) return;
    const auto state = std::find_if(findings_.begin(), findings_.end(), [&](const Finding* one) {
      return one->phase == Phase::kRandomState && one->step == culprits.front()->step &&
             one->name.starts_with("rng.torch");
    });
    if (state != findings_.end()) culprits.insert(culprits.begin(), *state);
  }

  const verdict::Model& model_;
  const KnownNoise* noise_;
  std::vector<const Finding*> findings_;  // in the order of execution
  std::vector<const Finding*> next_;      // of each the next one that is farther off than it may be
  std::unordered_map<std::string_view, const Finding*> buffers_;  // by module the last one that is so
  std::vector<bool> is_culprit_;
  bool all_by_chance_ = false;   // those that would be culprits
  std::uint64_t differing_ = 0;  // places
  bool is_same_training_ = false;
  bool nothing_comes_later_ = true;  // losses and gradients of several steps agree
  // By step and rank; where save() was given something, too, that of the dump.
  std::map<std::pair<int, int>, const StepWalk*> walks_;
  // By step and name: how far off is what all ranks give.
  std::map<int, std::unordered_map<std::string_view, double>> given_;
};

// What is no call (a setting of a module, a weight, a gradient) stands at a call of its module: there a
// reader finds its lines, its rows and its node.
void add_places(const trace::Trace& target, std::vector<Finding>& findings) {
  const auto needs_place = [](const Finding& one) { return one.record.empty() && !one.module.empty(); };
  if (std::none_of(findings.begin(), findings.end(), needs_place)) return;
  std::unordered_map<std::string, std::string_view> calls, gradients;
  for (const trace::Record& record : target.records()) {
    const std::string_view name = target.name(record);
    if (!is_module(name) || is_backward(name)) continue;
    (trace::holds_gradients(name) ? gradients : calls).try_emplace(module_path(name), name);
  }
  for (Finding& finding : findings) {
    if (!needs_place(finding)) continue;
    const auto own = gradients.find(finding.module), call = calls.find(finding.module);
    if (finding.kind == FindingKind::kGradient && own != gradients.end()) {
      finding.record = own->second;
    } else if (call != calls.end()) {
      finding.record = call->second;
    }
  }
}

}  // namespace

std::vector<Distance> distances(const DumpPair& pair, const std::vector<RealMetrics>& metrics,
                                unsigned threads) {
  constexpr std::size_t kRowsAtOnce = 4096;  // in one piece of work: the distances do not depend on it
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

StepWalk walk_step(const DumpPair& pair, const std::vector<RealMetrics>& metrics,
                   const std::vector<Distance>& distances, int step, int rank, const StepWalk* before,
                   const std::function<void(const Judged&)>& observer, const ModelChanges& changes) {
  const verdict::Model model = verdict::Model::with(changes);
  const bool has_state = pair.target_state && pair.reference_state;
  const trace::Json nothing;
  const trace::Json& target = has_state ? pair.target_state->root : nothing;
  const trace::Json& given = has_state ? pair.reference_state->root : nothing;
  std::map<std::string, std::string> names = verdict::other_names(target, given);
  const trace::Json theirs = names.empty() ? trace::Json() : verdict::renamed(given, names);
  const trace::Json& reference = names.empty() ? given : theirs;
  verdict::SuspectsOfCalls calls =
      verdict::suspects_of_calls(model, pair, metrics, distances, before, target, reference, observer);
  calls.walk.other_names = std::move(names);
  if (has_state) verdict::add_suspects_of_state(model, target, reference, before, calls, observer);
  add_places(pair.target, calls.walk.findings);
  calls.walk.step = step;
  calls.walk.rank = rank;
  for (Finding& finding : calls.walk.findings) {
    finding.step = step;
    finding.rank = rank;
  }
  return std::move(calls.walk);
}

void KnownNoise::add(std::span<const StepWalk* const> run) {
  for (const StepWalk* walk : run) {
    for (const Finding& finding : walk->findings) {
      double& known = seen_[key_of(finding)];
      known = std::max(known, finding.strength);
    }
  }
}

void KnownNoise::add_amplification(const std::string& record, double amplification) {
  double& known = amplification_[record];
  known = std::max(known, amplification);
}

double KnownNoise::strength(const Finding& finding, double suspect) const {
  const auto found = seen_.find(key_of(finding));
  const double known = found == seen_.end() ? 0 : found->second;
  if (finding.phase != Phase::kCalls || !std::isfinite(finding.distance.low)) return known;
  auto amplified = amplification_.find(finding.name);
  if (amplified == amplification_.end()) amplified = amplification_.find(finding.record);
  // Of what is measured, not of what happened once: without the margin that noise has.
  return amplified == amplification_.end() ? known : std::max(known, amplified->second / suspect);
}

Verdict judge(std::span<const StepWalk* const> walks, const KnownNoise* noise, const ModelChanges& changes) {
  const verdict::Model model = verdict::Model::with(changes);
  const Judge judge(model, walks, noise);
  Verdict verdict;
  const std::vector<const Finding*> culprits = judge.culprits();
  for (std::size_t i = 0; i < std::min(culprits.size(), kMostCulprits); ++i)
    verdict.culprits.push_back(*culprits[i]);
  verdict.notes = judge.notes(walks);
  const bool all_equal =
      std::all_of(walks.begin(), walks.end(), [](const StepWalk* walk) { return walk->all_equal(); });
  verdict.has_noise = !all_equal;
  verdict.status = !culprits.empty() ? Status::kDiffer : all_equal ? Status::kEqual : Status::kRounding;
  for (const StepWalk* walk : walks) {
    if (walk->first_differing.empty() || verdict.status != Status::kRounding || noise != nullptr) continue;
    if (walk->divided_otherwise && walk->gradients_agree()) continue;
    verdict.status = Status::kDiffer;
    verdict.last_agreeing = walk->last_agreeing;
    verdict.first_differing = walk->first_differing;
  }
  return verdict;
}

double confidence(const Finding& finding, std::size_t place) {
  double own = finding.is_hidden ? kHidden : kExact;
  if (is_measured(finding)) {
    const double surplus = std::max(finding.strength, 1.0);
    const double most = finding.exact_before ? kExact : kMostInNoise;
    own = most - (most - kLeast) / surplus;
  }
  return std::max(own * std::pow(0.5, static_cast<double>(place)), 0.001);
}

}  // namespace msprobe::compare

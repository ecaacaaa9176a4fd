// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <unordered_map>

#include "msprobe/record_name.h"
#include "msprobe/trace_match.h"
#include "trace/match/align.h"
#include "trace/match/in_threads.h"
#include "trace/match/match_modules.h"
#include "trace/match/parent_cursor.h"
#include "trace/name_index.h"

namespace msprobe::trace {
namespace {

// An operator's call: its forward and its backward record, of which one may be missing.
struct Call {
  std::string_view name;    // "Functional.linear.5"
  std::string_view callee;  // "Functional.linear"
  std::uint32_t forward = kNoMatch;
  std::uint32_t backward = kNoMatch;
};

// A run, the calls of its modules, and those of the other run that they may be paired with.
struct Modules {
  const ModuleTree& own;
  const ModuleTree* reference;  // null: of the reference itself

  // The name of a module's call without its class, as the reference counts: equal for calls that are paired.
  void append_place(std::string& place, std::string_view name) const {
    const RecordName parts(name);
    const std::uint32_t index = own.find(parts);
    if (index == kNoMatch) return append_without_count(place, name);
    const std::uint32_t other = own[index].match;
    const ModuleTree::Call& call =
        reference == nullptr || other == kNoMatch ? own[index] : (*reference)[other];
    place.append(call.place).append(parts.is_backward() ? ".backward." : ".forward.").append(call.count);
    if (reference != nullptr && other == kNoMatch) place += " alone";  // no name of a module has a blank
  }
};

// The calls of operators of one run in their order, and the modules in which they ran.
class Side {
 public:
  Side(const Trace& trace, const Construct* construct, const Modules& modules)
      : trace_(trace), construct_(construct), modules_(modules) {
    std::vector<std::uint32_t> known = make_slots(trace.records().size());
    const auto name_of = [this](std::uint32_t call) { return calls[call].name; };
    for (std::uint32_t i = 0; i < trace.records().size(); ++i) {
      const RecordName name(trace.name(trace.records()[i]));
      if (name.kind() == NameKind::kModule) continue;
      if (name.kind() != NameKind::kCall) {
        others.push_back(i);
        continue;
      }
      std::uint32_t& slot = find_slot(known, name.call(), name_of);
      if (slot == kFreeSlot) {
        slot = static_cast<std::uint32_t>(calls.size());
        calls.push_back({.name = name.call(), .callee = name.callee()});
      }
      (name.is_backward() ? calls[slot].backward : calls[slot].forward) = i;
    }
    group_by_place();
    tokens.reserve(calls.size());
    for (const Call& call : calls) tokens.push_back(token(call));
  }

  const std::unordered_map<std::string, std::vector<std::uint32_t>>& by_place() const { return by_place_; }

  std::vector<Call> calls;
  std::vector<Token> tokens;          // of the calls
  std::vector<std::uint32_t> others;  // records that are no calls

 private:
  Token token(const Call& call) const {
    const std::uint32_t record = call.forward != kNoMatch ? call.forward : call.backward;
    return token_of(call.callee, trace_, trace_.records()[record]);
  }

  // By the call of the module in which they ran, without the module's class. What runs again in the backward
  // pass is another group.
  void group_by_place() {
    ParentCursor parents(construct_);
    std::string_view last;
    bool last_is_repeated = false;
    std::vector<std::uint32_t>* group = nullptr;  // of the calls in `last`
    for (std::uint32_t i = 0; i < calls.size(); ++i) {
      const std::uint32_t record = calls[i].forward != kNoMatch ? calls[i].forward : calls[i].backward;
      const std::string_view parent = parents.parent(trace_.name(trace_.records()[record]));
      const bool is_repeated = trace_.records()[record].is_recompute;
      if (group == nullptr || parent != last || is_repeated != last_is_repeated) {
        std::string place;
        modules_.append_place(place, parent);
        if (is_repeated) place += " again";
        group = &by_place_[place];
        last = parent;
        last_is_repeated = is_repeated;
      }
      group->push_back(i);
    }
  }

  const Trace& trace_;
  const Construct* construct_;
  const Modules modules_;
  std::unordered_map<std::string, std::vector<std::uint32_t>> by_place_;
};

class Matcher {
 public:
  Matcher(const Trace& target_trace, const Side& target, const Trace& reference_trace, const Side& reference)
      : target_trace_(target_trace),
        reference_trace_(reference_trace),
        target_(target),
        reference_(reference) {
    matches_.of_target.resize(target_trace.records().size());
    matches_.of_reference.resize(reference_trace.records().size());
  }

  RecordMatches run(const ModuleTree& target_modules, const ModuleTree& reference_modules) {
    pair_modules(target_modules, reference_modules);
    pair_others();
    target_calls_.resize(target_.calls.size());
    reference_calls_.resize(reference_.calls.size());
    for (const auto& [place, calls] : target_.by_place()) {
      const auto found = reference_.by_place().find(place);
      if (found != reference_.by_place().end()) align_calls(calls, found->second);
    }
    pair_moved();
    return std::move(matches_);
  }

 private:
  void pair(std::uint32_t target, std::uint32_t reference, MatchKind how) {
    if (target == kNoMatch || reference == kNoMatch) return;
    matches_.of_target[target] = {.index = reference, .how = how};
    matches_.of_reference[reference] = {.index = target, .how = how};
  }

  void pair_calls(std::uint32_t target, std::uint32_t reference, MatchKind how) {
    const Call &a = target_.calls[target], &b = reference_.calls[reference];
    pair(a.forward, b.forward, how);
    pair(a.backward, b.backward, how);
    target_calls_[target] = reference_calls_[reference] = true;
  }

  void pair_modules(const ModuleTree& target, const ModuleTree& reference) {
    for (std::uint32_t i = 1; i < target.size(); ++i) {
      if (target[i].match == kNoMatch) continue;
      const ModuleTree::Call &ours = target[i], &theirs = reference[ours.match];
      const MatchKind how = ours.callee != theirs.callee ? MatchKind::kFuzzy
                            : ours.count != theirs.count ? MatchKind::kAligned
                                                         : MatchKind::kExact;
      pair(ours.forward, theirs.forward, how);
      pair(ours.backward, theirs.backward, how);
    }
  }

  // Gradients, what was saved: by name, then without the class.
  void pair_others() {
    std::unordered_map<std::string, std::uint32_t> waiting;
    const auto key = [](const Trace& trace, std::uint32_t record) {
      std::string text;
      append_without_count(text, trace.name(trace.records()[record]));
      return text;
    };
    for (const std::uint32_t record : target_.others) {
      if (const auto found = reference_trace_.find(target_trace_.name(target_trace_.records()[record]))) {
        pair(record, static_cast<std::uint32_t>(*found), MatchKind::kExact);
      }
    }
    for (const std::uint32_t record : reference_.others) {
      if (!matches_.of_reference[record]) waiting.try_emplace(key(reference_trace_, record), record);
    }
    if (waiting.empty()) return;
    for (const std::uint32_t record : target_.others) {
      if (matches_.of_target[record]) continue;
      const auto found = waiting.find(key(target_trace_, record));
      if (found == waiting.end()) continue;
      pair(record, found->second, MatchKind::kFuzzy);
      waiting.erase(found);
    }
  }

  void align_calls(const std::vector<std::uint32_t>& target, const std::vector<std::uint32_t>& reference) {
    const auto tokens = [](const Side& side, const std::vector<std::uint32_t>& calls) {
      std::vector<Token> result;
      result.reserve(calls.size());
      for (const std::uint32_t call : calls) result.push_back(side.tokens[call]);
      return result;
    };
    for (const auto& [i, j] : align(tokens(target_, target), tokens(reference_, reference))) {
      const bool same_name = target_.calls[target[i]].name == reference_.calls[reference[j]].name;
      pair_calls(target[i], reference[j], same_name ? MatchKind::kExact : MatchKind::kAligned);
    }
  }

  // Calls that are still alone on both sides and have the same name.
  void pair_moved() {
    std::unordered_map<std::string_view, std::uint32_t> waiting;
    for (std::uint32_t i = 0; i < reference_.calls.size(); ++i) {
      if (!reference_calls_[i]) waiting.emplace(reference_.calls[i].name, i);
    }
    if (waiting.empty()) return;
    for (std::uint32_t i = 0; i < target_.calls.size(); ++i) {
      if (target_calls_[i]) continue;
      if (const auto found = waiting.find(target_.calls[i].name); found != waiting.end()) {
        pair_calls(i, found->second, MatchKind::kMoved);
      }
    }
  }

  const Trace &target_trace_, &reference_trace_;
  const Side &target_, &reference_;
  RecordMatches matches_;
  std::vector<bool> target_calls_, reference_calls_;  // paired
};

}  // namespace

std::string_view match_name(MatchKind kind) noexcept {
  switch (kind) {
    case MatchKind::kExact: return "exact";
    case MatchKind::kAligned: return "aligned";
    case MatchKind::kMoved: return "moved";
    case MatchKind::kFuzzy: return "fuzzy";
    case MatchKind::kMapped: return "mapped";
    case MatchKind::kNone: break;
  }
  return "none";
}

RecordMatches match_records(const Trace& target, const Construct* target_construct, const Trace& reference,
                            const Construct* reference_construct, ThreadPool* pool) {
  std::array<std::unique_ptr<ModuleTree>, 2> modules;
  in_threads(pool, 2, [&](std::size_t i) {
    modules[i] = i == 0 ? std::make_unique<ModuleTree>(target, target_construct)
                        : std::make_unique<ModuleTree>(reference, reference_construct);
  });
  match_modules(*modules[0], *modules[1]);
  std::array<std::unique_ptr<const Side>, 2> sides;
  in_threads(pool, 2, [&](std::size_t i) {
    sides[i] = i == 0
                   ? std::make_unique<Side>(target, target_construct, Modules{*modules[0], modules[1].get()})
                   : std::make_unique<Side>(reference, reference_construct, Modules{*modules[1], nullptr});
  });
  return Matcher(target, *sides[0], reference, *sides[1]).run(*modules[0], *modules[1]);
}

}  // namespace msprobe::trace

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "trace/match/match_modules.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "trace/match/align.h"

namespace msprobe::trace {
namespace {

std::string key_of_module(std::string_view callee, std::string_view count) {
  std::string key(callee);
  return key.append(".").append(count);
}

std::uint64_t words_of(const Trace& trace, const Record& record) {
  std::uint64_t words = 0;
  for (const Item& item : trace.items(record)) {
    if (item.value.kind == Scalar::Kind::kText && item.part != Item::Part::kOutput)
      words = words * 31 + std::hash<std::string_view>()(trace.text(item.value));
  }
  return words;
}

class ModuleMatcher {
 public:
  ModuleMatcher(ModuleTree& target, ModuleTree& reference) : target_(target), reference_(reference) {}

  void run() {
    pair(ModuleTree::kRoot, ModuleTree::kRoot);
    for (std::uint32_t i = 1; i < target_.size(); ++i) {
      if (target_[i].match == kNoMatch) pair_if_free(i, reference_.find(target_[i].callee, target_[i].count));
    }
    std::unordered_map<std::string, std::uint32_t> waiting;  // by place
    for (std::uint32_t i = 1; i < reference_.size(); ++i) {
      const ModuleTree::Call& call = reference_[i];
      if (call.match == kNoMatch) waiting.try_emplace(key_of_module(call.place, call.count), i);
    }
    for (std::uint32_t i = 1; i < target_.size() && !waiting.empty(); ++i) {
      if (target_[i].match != kNoMatch) continue;
      const auto found = waiting.find(key_of_module(target_[i].place, target_[i].count));
      if (found != waiting.end()) pair_if_free(i, found->second);
    }
  }

 private:
  using Calls = std::vector<std::uint32_t>;
  using ByPlace = std::unordered_map<std::uint64_t, Calls>;

  void pair_if_free(std::uint32_t target, std::uint32_t reference) {
    if (reference == kNoMatch || reference_[reference].match != kNoMatch) return;
    if (may_be_same(target, reference)) pair(target, reference);
  }

  // With all that follows from it. A file may be nested deeper than this thread has a stack.
  void pair(std::uint32_t target, std::uint32_t reference) {
    link(target, reference);
    while (!below_.empty()) {
      const auto [ours, theirs] = below_.back();
      below_.pop_back();
      pair_children(target_[ours].children, reference_[theirs].children);
    }
  }

  void link(std::uint32_t target, std::uint32_t reference) {
    target_[target].match = reference;
    reference_[reference].match = target;
    below_.emplace_back(target, reference);
  }

  void pair_children(const Calls& all_target, const Calls& all_reference) {
    const Calls target = free_ones(target_, all_target), reference = free_ones(reference_, all_reference);
    bool is_even = true;  // no run calls a module more often than the other
    for (const bool with_words : {true, false}) {
      const Calls left = free_ones(target_, target);
      if (left.empty()) break;
      const ByPlace ours = by_place(target_, left, with_words),
                    theirs = by_place(reference_, free_ones(reference_, reference), with_words);
      for (const auto& [place, calls] : ours) {
        const auto found = theirs.find(place);
        if (found == theirs.end()) continue;
        if (found->second.size() != calls.size()) {
          is_even = false;
          continue;
        }
        for (std::size_t i = 0; i < calls.size(); ++i) link(calls[i], found->second[i]);
      }
    }
    if (is_even) return;
    for (const auto& [i, j] : align(tokens(target_, target), tokens(reference_, reference))) {
      const bool is_free = target_[target[i]].match == kNoMatch && reference_[reference[j]].match == kNoMatch;
      if (is_free) link(target[i], reference[j]);
    }
  }

  // False where the calls around are other calls than each other's. One that has none around tells nothing:
  // not every run records what is around.
  bool may_be_same(std::uint32_t target, std::uint32_t reference) const {
    const std::uint32_t around = target_[target].parent, other_around = reference_[reference].parent;
    if (around == ModuleTree::kRoot || other_around == ModuleTree::kRoot) return true;
    const std::uint32_t found = target_[around].match;
    return found == kNoMatch || found == other_around || reference_[other_around].match == kNoMatch;
  }

  static Calls free_ones(const ModuleTree& tree, const Calls& calls) {
    Calls result;
    std::copy_if(calls.begin(), calls.end(), std::back_inserter(result),
                 [&](std::uint32_t call) { return tree[call].match == kNoMatch; });
    return result;
  }

  static std::uint64_t place_of(const ModuleTree::Call& call, bool with_words = false) {
    return (with_words ? call.words : 0) ^ std::hash<std::string_view>()(call.place) ^
           (call.is_repeated ? 0x9e3779b97f4a7c15ULL : 0);
  }

  // In the order of their counts: a file need not have them in the order of the calls.
  static ByPlace by_place(const ModuleTree& tree, const Calls& calls, bool with_words) {
    ByPlace places;
    for (const std::uint32_t call : calls) places[place_of(tree[call], with_words)].push_back(call);
    for (auto& [place, same] : places) {
      std::stable_sort(same.begin(), same.end(), [&](std::uint32_t a, std::uint32_t b) {
        const std::string_view one = tree[a].count, other = tree[b].count;
        return one.size() != other.size() ? one.size() < other.size() : one < other;
      });
    }
    return places;
  }

  static std::vector<Token> tokens(const ModuleTree& tree, const Calls& calls) {
    std::vector<Token> result;
    result.reserve(calls.size());
    for (const std::uint32_t call : calls) {
      result.push_back(
          {.what = place_of(tree[call]), .detail = std::hash<std::string_view>()(tree[call].count)});
    }
    return result;
  }

  ModuleTree &target_, &reference_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> below_;  // pairs whose children are not paired yet
};

}  // namespace

ModuleTree::ModuleTree(const Trace& trace, const Construct* construct) : calls_(1) {
  if (construct != nullptr) {
    std::string_view last;
    std::uint32_t parent = kRoot;
    for (const Construct::Entry& entry : construct->entries()) {
      if (entry.parent != last) {
        const std::uint32_t found = add(entry.parent);
        parent = found == kNoMatch ? kRoot : found;
        last = entry.parent;
      }
      const std::uint32_t call = add(entry.name);
      if (call != kNoMatch && calls_[call].parent == kRoot) calls_[call].parent = parent;
    }
  }
  for (std::uint32_t i = 0; i < trace.records().size(); ++i) {
    const RecordName name(trace.name(trace.records()[i]));
    const std::uint32_t call = add(name.text());
    if (call == kNoMatch) continue;
    (name.is_backward() ? calls_[call].backward : calls_[call].forward) = i;
    calls_[call].is_repeated |= trace.records()[i].is_recompute;
    if (!name.is_backward()) calls_[call].words = words_of(trace, trace.records()[i]);
  }
  for (std::uint32_t i = 1; i < calls_.size(); ++i) calls_[calls_[i].parent].children.push_back(i);
}

std::uint32_t ModuleTree::add(std::string_view name) {
  const RecordName parts(name);
  if (parts.kind() != NameKind::kModule) return kNoMatch;
  const auto [found, is_new] = by_name_.try_emplace(key_of_module(parts.callee(), parts.count()),
                                                    static_cast<std::uint32_t>(calls_.size()));
  if (is_new) {
    const bool has_class = parts.place().find('.') != std::string_view::npos;
    calls_.push_back({.callee = parts.callee(),
                      .place = has_class ? parts.place() : parts.callee(),
                      .count = parts.count()});
  }
  return found->second;
}

std::uint32_t ModuleTree::find(std::string_view callee, std::string_view count) const {
  const auto found = by_name_.find(key_of_module(callee, count));
  return found == by_name_.end() ? kNoMatch : found->second;
}

std::uint32_t ModuleTree::find(const RecordName& name) const {
  return name.kind() == NameKind::kModule ? find(name.callee(), name.count()) : kNoMatch;
}

void match_modules(ModuleTree& target, ModuleTree& reference) { ModuleMatcher(target, reference).run(); }

}  // namespace msprobe::trace

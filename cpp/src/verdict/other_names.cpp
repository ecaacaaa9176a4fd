// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/other_names.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string_view>
#include <utility>
#include <vector>

#include "verdict/state_entry.h"

namespace msprobe::verdict {
namespace {

using trace::Json;
using Names = std::map<std::string, std::string>;

using Entry = std::pair<std::string, const Json*>;

// In the order of the model.
std::vector<Entry> only_in(const Json& has, const Json& lacks) {
  const auto others = by_key(lacks);
  std::vector<Entry> found;
  for (std::size_t i = 0; i < has.keys().size(); ++i) {
    if (!others.contains(has.keys()[i])) found.emplace_back(has.keys()[i], &has.items()[i]);
  }
  return found;
}

std::string kind_of(const Json& entry) { return std::string(entry["dtype"].text()) + shown(entry["shape"]); }

std::string value_of(const Json& entry) {
  std::string value = kind_of(entry);
  for (const std::string_view key : {"crc32", "sketch", "min", "max", "mean", "norm"})
    value.append("|").append(entry[key].text());
  return value;
}

void pair(std::vector<Entry> ours, std::vector<Entry> theirs, Names& names) {
  std::map<std::string, std::deque<std::size_t>> by_value;
  for (std::size_t i = 0; i < ours.size(); ++i) by_value[value_of(*ours[i].second)].push_back(i);
  std::vector<bool> is_taken(ours.size());
  std::vector<Entry> left;
  for (Entry& other : theirs) {
    const auto found = by_value.find(value_of(*other.second));
    if (found == by_value.end() || found->second.empty()) {
      left.push_back(std::move(other));
      continue;
    }
    is_taken[found->second.front()] = true;
    names[other.first] = ours[found->second.front()].first;
    found->second.pop_front();
  }
  std::vector<Entry> free;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (!is_taken[i]) free.push_back(std::move(ours[i]));
  }
  const bool are_alike =
      std::equal(free.begin(), free.end(), left.begin(), left.end(),
                 [](const Entry& a, const Entry& b) { return kind_of(*a.second) == kind_of(*b.second); });
  for (std::size_t i = 0; are_alike && i < free.size(); ++i) names[left[i].first] = free[i].first;
}

// The modules around two tensors, as far up as their paths go on alike below them.
void pair_modules(Names& names) {
  Names modules;
  for (const auto& [reference, target] : names) {
    std::string theirs = module_of(reference), ours = module_of(target);
    while (!theirs.empty() && !ours.empty() && theirs != ours && modules.try_emplace(theirs, ours).second) {
      if (theirs.substr(theirs.rfind('.') + 1) != ours.substr(ours.rfind('.') + 1)) break;
      theirs = module_of(theirs);
      ours = module_of(ours);
    }
  }
  names.merge(modules);
}

}  // namespace

Names other_names(const Json& target, const Json& reference) {
  Names names;
  for (const std::string_view part : {"parameters", "buffers"})
    pair(only_in(target[part], reference[part]), only_in(reference[part], target[part]), names);
  pair_modules(names);
  return names;
}

Json renamed(const Json& state, const Names& names) {
  Json result = state;
  for (const std::string_view part :
       {"modules", "parameters", "buffers", "backward", "clipping", "gradients_at_optimizer", "optimizer"})
    result.rename(part, names);
  return result;
}

}  // namespace msprobe::verdict

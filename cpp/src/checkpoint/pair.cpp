// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <unordered_map>

#include "checkpoint/merge.h"
#include "checkpoint/names.h"
#include "checkpoint/pieces.h"
#include "msprobe/checkpoint.h"

namespace msprobe::checkpoint {
namespace {

using Parameters = std::span<const Parameter>;
using Places = std::unordered_map<std::string_view, std::size_t>;

// What programs that save a model put in front of all names.
constexpr std::array<std::string_view, 4> kPrefixes{"", "model.", "module.", "module.model."};

std::string_view without(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

Places places_of(Parameters parameters, std::string_view prefix) {
  Places places;
  for (std::size_t i = 0; i < parameters.size(); ++i) places[without(parameters[i].name, prefix)] = i;
  return places;
}

std::size_t count_pairs(Parameters reference, std::string_view prefix, const Places& target) {
  return static_cast<std::size_t>(
      std::count_if(reference.begin(), reference.end(),
                    [&](const Parameter& one) { return target.contains(without(one.name, prefix)); }));
}

struct Prefixes {
  std::string_view reference;
  std::string_view target;
};

// Those that find the most pairs; none where that finds as many.
Prefixes choose_prefixes(Parameters reference, Parameters target) {
  Prefixes best;
  std::size_t most = count_pairs(reference, "", places_of(target, ""));
  for (const std::string_view of_target : kPrefixes) {
    const Places places = places_of(target, of_target);
    for (const std::string_view of_reference : kPrefixes) {
      const std::size_t pairs = count_pairs(reference, of_reference, places);
      if (pairs > most) {
        most = pairs;
        best = {of_reference, of_target};
      }
    }
  }
  return best;
}

bool is_vocabulary(const Rules& rules, const Parameter& reference, const Parameter& target) {
  return reference.shape.size() == target.shape.size() && !reference.shape.empty() &&
         std::equal(reference.shape.begin() + 1, reference.shape.end(), target.shape.begin() + 1) &&
         matches_any(rules.vocabulary, reference.name);
}

Row row_of(const Parameter& reference, std::size_t reference_index, const Parameter& target,
           std::size_t target_index, const Rules& rules, std::string name) {
  Row row;
  row.name = std::move(name);
  row.reference = reference_index;
  row.target = target_index;
  row.comparable = reference.shape == target.shape;
  if (!row.comparable && is_vocabulary(rules, reference, target)) {
    row.comparable = true;
    row.rows = std::min(reference.shape[0], target.shape[0]);
  }
  return row;
}

constexpr std::array<std::string_view, 3> kOutputs{"output_layer.weight", "lm_head.weight",
                                                   "model.lm_head.weight"};
constexpr std::array<std::string_view, 4> kEmbeddings{
    "embedding.word_embeddings.weight", "model.embed_tokens.weight", "transformer.wte.weight", "wte.weight"};

// Takes an output layer that equals the embedding out of what only one side has: with tied weights it is a
// copy, which is kept or not depending on how the model was split.
void leave_out_tied(Parameters parameters, std::vector<std::size_t>& only, const std::string& side,
                    std::vector<std::string>& notes) {
  const auto is_one_of = [](const auto& names, const Parameter& one) {
    return std::find(names.begin(), names.end(), one.name) != names.end();
  };
  const auto embedding = std::find_if(parameters.begin(), parameters.end(),
                                      [&](const Parameter& one) { return is_one_of(kEmbeddings, one); });
  if (embedding == parameters.end()) return;
  std::erase_if(only, [&](std::size_t index) {
    const Parameter& one = parameters[index];
    if (!is_one_of(kOutputs, one) || !equal_bits(one, *embedding)) return false;
    notes.push_back(one.name + ": only in the " + side + " checkpoint, where it equals " + embedding->name +
                    ": the weights are tied");
    return true;
  });
}

}  // namespace

Pairing pair(const Checkpoint& reference, const Checkpoint& target, const Rules& rules) {
  const Parameters l = reference.parameters();
  const Parameters r = target.parameters();
  const Prefixes prefixes = choose_prefixes(l, r);
  Pairing pairing;
  for (const auto& [side, prefix] :
       {std::pair("reference", prefixes.reference), std::pair("target", prefixes.target)}) {
    if (!prefix.empty()) {
      pairing.notes.push_back("names of the " + std::string(side) + " checkpoint are taken without \"" +
                              std::string(prefix) + "\"");
    }
  }
  const Places places = places_of(r, prefixes.target);
  std::vector<bool> is_paired(r.size());
  for (std::size_t i = 0; i < l.size(); ++i) {
    const std::string_view name = without(l[i].name, prefixes.reference);
    const auto found = places.find(name);
    if (found == places.end() || is_paired[found->second]) {
      pairing.reference_only.push_back(i);
      continue;
    }
    is_paired[found->second] = true;
    pairing.rows.push_back(row_of(l[i], i, r[found->second], found->second, rules, std::string(name)));
  }
  for (std::size_t i = 0; i < r.size(); ++i) {
    if (!is_paired[i]) pairing.target_only.push_back(i);
  }
  leave_out_tied(l, pairing.reference_only, "reference", pairing.notes);
  leave_out_tied(r, pairing.target_only, "target", pairing.notes);
  return pairing;
}

}  // namespace msprobe::checkpoint

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Entries of diagnosis.json: a tensor, or a value (docs/formats/diagnosis.md).

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "msprobe/metrics.h"
#include "msprobe/training_state.h"
#include "verdict/model.h"

namespace msprobe::verdict {

/// Nothing for what is no tensor. The checksum refers to the entry.
std::optional<metrics::TensorFacts> tensor_of(const trace::Json& entry);

/// Of {"value": 0.5}, and of a bare number.
std::optional<double> number_of(const trace::Json& entry);

/// With so many significant digits.
std::string digits_of(double number, int digits);

/// Whether the program made both numbers, as they have more digits than people write, and an error of
/// everything before explains what they are apart.
bool is_computed(const Model& model, std::optional<double> ours, std::optional<double> theirs, double error);

/// A value for a sentence.
std::string shown(const trace::Json& entry);

/// Of two tensors, or two values: those are equal or not. `floor`: elements are measured against this size at
/// least.
metrics::Distance entry_distance(const trace::Json& target, const trace::Json& reference, double floor = 0);

/// Entries of both sides under the same name.
struct EntryPair {
  std::string name;
  const trace::Json* target;
  const trace::Json* reference;
  std::string of = name;  // the parameter that it belongs to
  std::string kind = {};  // those of one kind are measured together
  double floor = 0;
  std::optional<metrics::TensorFacts> facts = tensor_of(*reference);

  metrics::Distance apart() const { return entry_distance(*target, *reference, floor); }
};

/// The values of an object by their keys: of a key that occurs twice the last counts.
std::unordered_map<std::string_view, const trace::Json*> by_key(const trace::Json& object);

/// In the order of the target.
std::vector<EntryPair> common(const trace::Json& target, const trace::Json& reference);

/// Elements are measured against a tenth of the size of a typical one of their kind at least, as of all
/// gradients: much smaller ones are what rounding leaves where the exact result is zero (R7).
std::vector<EntryPair> measured_together(const Model& model, std::vector<EntryPair> entries);

/// The largest distance of those that have one.
double farthest(const std::vector<EntryPair>& entries);

/// Calls visit(name, ours, theirs) for what differs of two values, entry by entry of objects.
template <typename Visit>
void for_each_differing(const trace::Json& ours, const trace::Json& theirs, const std::string& name,
                        const Visit& visit) {
  if (!ours.is_object() || !theirs.is_object()) {
    if (!(ours == theirs)) visit(name, ours, theirs);
    return;
  }
  const std::string prefix = name.empty() ? "" : name + ".";
  for (const std::string& key : ours.keys()) {
    if (!(ours[key] == theirs[key])) visit(prefix + key, ours[key], theirs[key]);
  }
  for (const std::string& key : theirs.keys()) {
    if (ours.find(key) == nullptr && !theirs[key].is_null()) visit(prefix + key, ours[key], theirs[key]);
  }
}

/// "layers.0.fc.weight" -> "layers.0.fc"; empty where there is no dot.
std::string module_of(std::string_view name);

}  // namespace msprobe::verdict

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

/// Of two tensors, or two values: those are equal or not. `floor`: elements are measured against this size at
/// least.
metrics::Distance entry_distance(const trace::Json& target, const trace::Json& reference, double floor = 0);

/// Of {"value": 0.5}, and of a bare number.
std::optional<double> number_of(const trace::Json& entry);

/// A value for a sentence.
std::string shown(const trace::Json& entry);

/// Entries of both sides under the same name.
struct EntryPair {
  std::string name;
  const trace::Json* target;
  const trace::Json* reference;
};

/// The values of an object by their keys: of a key that occurs twice the last counts.
std::unordered_map<std::string_view, const trace::Json*> by_key(const trace::Json& object);

/// In the order of the target.
std::vector<EntryPair> common(const trace::Json& target, const trace::Json& reference);

/// A tenth of the size of a typical element of tensors that belong together, such as all gradients: much
/// smaller ones are what rounding leaves where the exact result is zero.
double negligible(const Model& model, const std::vector<EntryPair>& entries);

/// "layers.0.fc.weight" -> "layers.0.fc"; empty where there is no dot.
std::string module_of(std::string_view name);

}  // namespace msprobe::verdict

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Entries of diagnosis.json: a tensor, or a value (docs/formats/diagnosis.md).

#include <optional>
#include <string>

#include "msprobe/metrics.h"
#include "msprobe/training_state.h"

namespace msprobe::compare {

/// Nothing for what is no tensor. The checksum refers to the entry.
std::optional<metrics::TensorFacts> tensor_of(const trace::Json& entry);

/// Of two tensors, or two values: those are equal or not. `floor`: elements are measured against this size at
/// least.
metrics::Distance entry_distance(const trace::Json& target, const trace::Json& reference, double floor = 0);

/// Of {"value": 0.5}, and of a bare number.
std::optional<double> number_of(const trace::Json& entry);

/// Unit roundoff of a tensor; 0 for anything else.
double unit_of(const trace::Json& entry);

/// A value for a sentence.
std::string shown(const trace::Json& entry);

}  // namespace msprobe::compare

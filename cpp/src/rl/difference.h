// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "msprobe/rl.h"

namespace msprobe::rl {

/// Adds `count` pairs of contiguous memory of any alignment; that of the first pair is `first`. Not complex.
void add_pairs(const void* reference, DType reference_dtype, const void* target, DType target_dtype,
               std::int64_t first, std::size_t count, Tolerance tolerance, Difference& difference);

/// Appends what was found in the pairs behind those of `whole`.
void append(Difference& whole, const Difference& part);

}  // namespace msprobe::rl

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "io/pt/pickle.h"

namespace msprobe::io {

/// Makes the values below `root` what PtValue promises: every reference from a value back to one that
/// contains it is replaced by an object "(cycle)". Throws PickleError when a path is longer than kPtDepth, or
/// when walking into every value each time it is met would take more than `most_steps`.
void make_finite(PtValue& root, std::uint64_t most_steps, PickleValues& values);

}  // namespace msprobe::io

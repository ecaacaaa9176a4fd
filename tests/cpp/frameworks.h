// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "msprobe/trace.h"

/// Frameworks as their adapters describe them.
namespace msprobe::test {

inline const trace::Framework kTorch{"pytorch", "torch"};
inline const trace::Framework kMindSpore{.name = "mindspore",
                                         .package = "mindspore",
                                         .qualifies_dtypes = false,
                                         .has_requires_grad = false,
                                         .has_recompute = false};

}  // namespace msprobe::test

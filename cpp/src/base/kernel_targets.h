// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The instruction sets that the kernels are compiled for; included before anything else of Highway. Scalable
/// vectors have no fixed size, which the arrays of vectors in the kernels need; such processors use NEON or
/// plain code.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#include <hwy/targets.h>

#include <cstdint>
#include <string_view>

namespace msprobe {

/// Tells Highway, once, to use the best instruction set of this processor, or the one that the environment
/// variable MSPROBE_INSTRUCTION_SET names ("AVX2"), to look for a fault in one of them. To be called before
/// kernels are chosen. Returns the name of the instruction set.
std::string_view use_best_instruction_set();

}  // namespace msprobe

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

#include "checkpoint/difference_kernels.h"
#include "msprobe/checkpoint.h"
#include "msprobe/tensor_view.h"

namespace msprobe::checkpoint {

/// The fast way of two dtypes; nullopt where there is none.
std::optional<Element> fast_way(DType reference, DType target);

/// Adds pairs that lie without gaps on both sides, in memory of any alignment. What it finds depends on how
/// many pairs it gets at a time, not on the instruction set (with fused multiply-add).
void add_pairs(Difference& whole, Element element, const void* reference, const void* target,
               std::size_t count);

/// Any two views of one shape.
Difference difference_of(const TensorView& reference, const TensorView& target);

/// Adds what was found of other pairs.
void append(Difference& whole, const Difference& part);

}  // namespace msprobe::checkpoint

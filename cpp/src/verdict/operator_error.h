// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// R2: what one operator of the catalogue makes of the errors of its sources, and its own rounding.

#include "verdict/model.h"

namespace msprobe::verdict {

/// No two tensors are farther apart, in parts of the larger one (the triangle inequality).
inline constexpr double kFarthest = 2;

/// A tolerance is so many times what is expected of one call. Where several follow each other that are not
/// measured one by one, it is allowed for once, behind the last.
inline constexpr double kMargin = 2;

/// Of a place by kOperator.
Tolerance of_operator(const Model& model, const Place& place);

/// How many times the relative error of this source of the place shows in the result.
double gain_of(const Model& model, const Place& place, const Source& one);

/// What its elements are off by together: Model::common().
Common common_of_operator(const Model& model, const Place& place);

/// a / b, which is as large as two tensors can be apart where b is 0.
double ratio(double a, double b);

/// R5: the share of integers and flags that an error takes to the other side of a limit, as a distance.
double discrete(double error);

/// `fine` for float32 and finer dtypes.
inline double by_unit(double unit, double fine, double coarse) { return is_coarse(unit) ? coarse : fine; }

}  // namespace msprobe::verdict

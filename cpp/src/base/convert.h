// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "msprobe/export.h"
#include "msprobe/tensor_view.h"

namespace msprobe {

/// Whether float holds every value of the type, or close enough.
MSPROBE_API bool fits_float(DType dtype) noexcept;

/// Converts `count` contiguous elements to float, rounding to nearest even where float cannot hold the value.
/// A complex element gives two floats.
void convert_to_float(const void* data, DType dtype, std::size_t count, float* out);

/// Converts `count` contiguous elements to double; 64-bit integers are rounded. A complex element gives two
/// doubles.
void convert_to_double(const void* data, DType dtype, std::size_t count, double* out);

/// The nearest number of float16 or bfloat16, ties to even, infinity beyond the largest one (IEEE 754,
/// section 4.3.1). `value` itself for every other dtype.
double rounded_to_half(double value, DType dtype) noexcept;

}  // namespace msprobe

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "msprobe/tensor_view.h"

namespace msprobe::test {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// Owns its elements; in C order without strides.
struct FloatTensor {
  std::vector<float> values;
  std::vector<std::int64_t> shape = {static_cast<std::int64_t>(values.size())};
  std::vector<std::int64_t> strides = {};

  TensorView view() const { return {values.data(), DType::kFloat32, shape, strides}; }
};

}  // namespace msprobe::test

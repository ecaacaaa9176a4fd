// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "core.h"
#include "msprobe/tensor_view.h"

/// A tensor in the memory of something that it keeps alive; for Python a read-only buffer.
struct HostTensor {
  std::shared_ptr<const void> owner;
  const void* data;
  msprobe::DType dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  // in elements; empty: C order without gaps
};

/// Dtypes without a name in the buffer protocol (bfloat16, fp8, complex32) appear as unsigned integers of
/// their size.
const char* buffer_format_of(msprobe::DType dtype);

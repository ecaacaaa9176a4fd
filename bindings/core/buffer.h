// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core.h"
#include "msprobe/tensor_view.h"

/// The dtype of this name; nullopt without one. `caller` begins the message of InvalidArgument.
std::optional<msprobe::DType> dtype_named(const std::string& caller, const std::optional<std::string>& name);

/// The memory of a Python buffer (a NumPy array, a memoryview, anything with the buffer protocol) as a
/// tensor, held for as long as this object lives. Native byte order only.
class BufferTensor {
 public:
  /// `caller` begins the messages. `dtype` is for what the buffer protocol has no name for (bfloat16, fp8,
  /// complex32): the elements are then taken as they are and must have the same size. Throws UnsupportedError
  /// for elements that are not numbers, or strides that are not multiples of the element; InvalidArgument for
  /// a dtype of another size.
  BufferTensor(const py::buffer& array, const std::string& caller,
               std::optional<msprobe::DType> dtype = std::nullopt);

  msprobe::TensorView view() const { return {info_.ptr, dtype_, shape_, strides_}; }
  std::int64_t count() const { return info_.size; }

 private:
  py::buffer_info info_;
  msprobe::DType dtype_;
  std::vector<std::int64_t> shape_;
  std::vector<std::int64_t> strides_;
};

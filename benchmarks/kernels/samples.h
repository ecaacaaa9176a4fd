// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Tensors to measure: gradient-like numbers in memory as a deep-learning framework would hold them.

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "msprobe/tensor_view.h"

namespace msprobe::bench {

/// Memory aligned as torch aligns it (64 bytes).
class Memory {
 public:
  explicit Memory(std::size_t bytes);
  std::byte* data() const noexcept { return data_.get(); }
  std::size_t size() const noexcept { return size_; }

 private:
  struct Free {
    void operator()(std::byte* data) const noexcept { std::free(data); }
  };
  std::size_t size_;
  std::unique_ptr<std::byte, Free> data_;
};

/// Normally distributed numbers around 0, about one in 64 of them zero; integers are of the size of 1000.
/// Supports the dtypes of this benchmark: float64/32/16, bfloat16, float8_e4m3fn, int64.
void fill(const Memory& memory, DType dtype);

/// Element `index` as a number.
double element(const void* data, DType dtype, std::size_t index);

}  // namespace msprobe::bench

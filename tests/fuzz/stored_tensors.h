// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "fuzz_target.h"
#include "msprobe/safetensors.h"

namespace msprobe::fuzz {

/// Checks what readers promise of the tensors of a file, and touches their bytes. Returns how many these are.
inline std::size_t check_stored(std::span<const io::SafetensorsTensor> tensors) {
  std::size_t bytes = 0;
  for (const io::SafetensorsTensor& tensor : tensors) {
    bytes += tensor.data.size();
    if (!tensor.data.empty()) promise(tensor.data.front() + tensor.data.back() >= 0, "data can be read");
    if (!tensor.dtype) continue;
    const auto count = element_count({nullptr, *tensor.dtype, tensor.shape, {}});
    promise(static_cast<std::size_t>(count) * element_size(*tensor.dtype) == tensor.data.size(),
            "data has the size of shape and dtype");
  }
  return bytes;
}

}  // namespace msprobe::fuzz

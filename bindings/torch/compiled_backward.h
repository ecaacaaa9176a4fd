// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/autograd/function.h>

/// Whether `node` is the backward of a region that torch.compile compiled; torch knows since it does so.
template <typename Node>
bool is_compiled(const Node& node) {
  if constexpr (requires { node.is_aot_backward(); }) return node.is_aot_backward();
  return false;
}

/// Whether the calling thread compiles the backward of a region, or runs it.
inline bool in_compiled_backward() {
  const auto node = torch::autograd::get_current_node();
  return node != nullptr && is_compiled(*node);
}

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

namespace msprobe::torch_adapter {

/// A shared pointer to a node, of the kind that this torch has.
using NodePtr = std::remove_cvref_t<decltype(std::declval<const at::Tensor&>().grad_fn())>;

/// AccumulateGrad nodes carry this number: they end every walk.
inline constexpr std::uint64_t kLeafSequence = std::numeric_limits<std::uint64_t>::max();

/// A view whose base was changed in place gets a new node when it is asked for one. Asking is left to the
/// training, or nodes would be numbered in another order than without us.
inline bool has_stale_node(const at::Tensor& tensor) {
  const auto* view = torch::autograd::impl::get_view_autograd_meta(tensor);
  return view != nullptr && view->has_bw_view() && tensor._version() != view->get_attr_version();
}

/// The node whose output is `tensor`. Null: none, or none that may be asked for.
inline NodePtr node_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.requires_grad() || tensor.is_leaf()) return {};
  if (tensor.is_inference() || has_stale_node(tensor)) return {};
  return tensor.grad_fn();
}

}  // namespace msprobe::torch_adapter

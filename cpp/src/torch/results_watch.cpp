// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <c10/core/TensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <algorithm>

#include "msprobe/torch_tensors.h"
#include "torch/gradient_edge.h"

namespace msprobe::torch_adapter {
namespace {

// Of the kind of shared pointer that this torch has for nodes.
template <typename Pointer>
struct WeakOf;
template <typename Node>
struct WeakOf<std::shared_ptr<Node>> {
  using Type = std::weak_ptr<Node>;
};
template <typename Node>
struct WeakOf<c10::intrusive_ptr<Node>> {
  using Type = c10::weak_intrusive_ptr<Node>;
};

template <typename Weak>
bool is_any_there(const std::vector<Weak>& all) {
  return std::any_of(all.begin(), all.end(), [](const Weak& one) { return !one.expired(); });
}

}  // namespace

struct ResultsWatch::State {
  std::vector<WeakOf<NodePtr>::Type> nodes;
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> tensors;  // those without
};

ResultsWatch::ResultsWatch(const std::vector<at::Tensor>& results) : state_(std::make_unique<State>()) {
  for (const at::Tensor& result : results) {
    if (!result.defined()) continue;
    if (const NodePtr node = node_of(result)) {
      state_->nodes.emplace_back(node);
    } else {
      state_->tensors.emplace_back(result.getIntrusivePtr());
    }
  }
}

ResultsWatch::~ResultsWatch() = default;

bool ResultsWatch::is_alive() const {
  if (state_->nodes.empty() && state_->tensors.empty()) return true;
  return is_any_there(state_->nodes) || is_any_there(state_->tensors);
}

}  // namespace msprobe::torch_adapter

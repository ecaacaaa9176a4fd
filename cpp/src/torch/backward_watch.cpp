// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/SequenceNumber.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <mutex>
#include <string_view>

#include "msprobe/torch_dump.h"
#include "msprobe/torch_tensors.h"
#include "torch/backward_hooks.h"
#include "torch/call_backward.h"
#include "torch/call_places.h"
#include "torch/gradient_edge.h"

namespace msprobe::torch_adapter {

namespace autograd = torch::autograd;
using autograd::Node;

struct BackwardWatch::Inputs {
  std::uint64_t first_node = 0;  // nodes of the call have this number or a higher one
  GradientEdges edges;
};

namespace {

// Of outputs that have gradients.
GradientEdges ends_of(const std::vector<at::Tensor>& outputs) {
  GradientEdges ends;
  for (const at::Tensor& output : outputs) {
    if (!has_end(output)) continue;
    ends.emplace_back(output.grad_fn(), static_cast<std::uint32_t>(output.output_nr()));
  }
  return ends;
}

// Completes what was known before the call.
void complete_starts(GradientEdges& starts, const std::vector<at::Tensor>& inputs, bool module) {
  starts.resize(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    // A leaf has no accumulator, and a stale view no node, before the call that first uses it.
    if (!starts[i].first) starts[i] = edge_of(inputs[i]);
  }
  // A module whose inputs have no gradients at all, an embedding, shows none.
  const auto has_gradient = [](const at::Tensor& input) { return input.defined() && input.requires_grad(); };
  if (module && std::none_of(inputs.begin(), inputs.end(), has_gradient)) starts.clear();
}

// Whether an input has a place in the backward record of an API: integers have no gradient.
bool has_place(const at::Tensor& input) {
  const at::ScalarType type = input.scalar_type();
  return at::isFloatingType(type) || at::isComplexType(type);
}

constexpr std::size_t kMostEdges = 1000;

// Hooks a call that made a single node. False when it made several, or works in another way that takes
// CallBackward.
bool watch_one_node(const std::shared_ptr<BackwardState>& state, const CallGraph& graph,
                    const GradientEdges& ends, const std::vector<at::Tensor>& inputs,
                    std::string_view forward_name) {
  if (state->session.keeps_overflows_only()) return false;
  Node* node = ends[0].first.get();
  const auto is_other = [&](const auto& end) { return end.first.get() != node; };
  if (!graph.is_inside(node) || std::any_of(ends.begin(), ends.end(), is_other)) return false;
  const auto& edges = node->next_edges();
  const auto is_inner = [&](const auto& edge) {
    return edge.function && graph.is_inside(edge.function.get());
  };
  if (edges.size() > kMostEdges || std::any_of(edges.begin(), edges.end(), is_inner)) return false;
  auto hook = std::make_unique<OneNodeHook>(state, dump::backward_name(forward_name));
  const dump::Session::Kept& kept = state->session.kept(trace::RecordKind::kApiBackward);
  if (kept.inputs) {
    for (const auto& end : ends) hook->outputs.push_back(static_cast<std::uint16_t>(end.second));
  }
  if (kept.outputs) {
    for (const at::Tensor& input : inputs) {
      hook->inputs.push_back(has_place(input) ? OneNodeHook::kNone : OneNodeHook::kHidden);
    }
    Dealer dealer(graph);
    for (std::uint32_t i = 0; i < edges.size(); ++i) {
      if (!edges[i].function) continue;
      const int input = dealer.input_at(edges[i].function.get(), edges[i].input_nr);
      if (input < 0) continue;
      std::int16_t& place = hook->inputs[static_cast<std::size_t>(input)];
      if (place >= 0) return false;  // several contributions to one input are added up
      if (place == OneNodeHook::kNone) place = static_cast<std::int16_t>(i);
    }
  }
  node->add_post_hook(std::move(hook));
  return true;
}

// Puts hooks on the nodes through which gradients enter or leave a call.
void put_hooks(const std::shared_ptr<CallBackward>& call, CallPlaces& places) {
  for (WatchedNode& entry : places.nodes) {
    if (!entry.arriving.empty() && (call->is_module || entry.passes_through)) {
      entry.node->add_pre_hook(std::make_unique<ArrivalHook>(call, std::move(entry.arriving)));
      entry.arriving.clear();
    }
    if (entry.arriving.empty() && entry.leaving.empty()) continue;
    entry.node->add_post_hook(
        std::make_unique<DepartureHook>(call, std::move(entry.arriving), std::move(entry.leaving)));
  }
}

}  // namespace

BackwardWatch::BackwardWatch(dump::Session& session, TensorDescriber& describer)
    : state_(std::make_shared<BackwardState>(session, describer)) {}

BackwardWatch::~BackwardWatch() { end_step(); }

std::shared_ptr<BackwardWatch::Inputs> BackwardWatch::before_call(const std::vector<at::Tensor>& inputs) {
  auto result = std::allocate_shared<Inputs>(PoolAllocator<Inputs>());
  result->first_node = at::sequence_number::peek();
  result->edges.reserve(inputs.size());
  for (const at::Tensor& input : inputs) result->edges.push_back(edge_of(input));
  return result;
}

void BackwardWatch::after_call(const std::shared_ptr<Inputs>& before, const std::vector<at::Tensor>& inputs,
                               const std::vector<at::Tensor>& outputs, std::string_view forward_name,
                               bool module) {
  if (!before) return;
  const GradientEdges ends = ends_of(outputs);
  if (ends.empty()) return;
  GradientEdges& starts = before->edges;
  complete_starts(starts, inputs, module);
  if (!module && watch_one_node(state_, CallGraph(before->first_node, starts), ends, inputs, forward_name)) {
    return;
  }

  auto call = std::allocate_shared<CallBackward>(PoolAllocator<CallBackward>());
  call->state = state_;
  call->step = state_->step.load();
  call->name = std::string_view(dump::backward_name(forward_name));
  call->module = state_->recorder.innermost();
  call->is_module = module;
  call->outputs.resize(ends.size());
  call->inputs.resize(starts.size());
  CallPlaces places = places_of_call(before->first_node, starts, ends);
  for (std::size_t i = 0; i < ends.size(); ++i) call->outputs[i].expected = places.expected_outputs[i];
  for (std::size_t i = 0; i < starts.size(); ++i) call->inputs[i].expected = places.expected_inputs[i];
  for (std::size_t i = 0; !module && i < inputs.size(); ++i) call->inputs[i].shown = has_place(inputs[i]);
  put_hooks(call, places);
}

void BackwardWatch::watch_parameters(const dump::Call& module,
                                     const std::vector<std::pair<std::string, at::Tensor>>& parameters) {
  c10::SmallVector<std::string_view, 4> names;
  c10::SmallVector<const at::Tensor*, 4> watched;
  for (const auto& [name, parameter] : parameters) {
    if (!parameter.defined() || !parameter.requires_grad() || !parameter.is_leaf()) continue;
    names.push_back(name);
    watched.push_back(&parameter);
  }
  c10::SmallVector<trace::SlotId, 4> slots(names.size());
  const auto record =
      state_->session.watch_parameters(module, {names.data(), names.size()}, {slots.data(), slots.size()});
  if (!record) return;
  for (std::size_t i = 0; i < watched.size(); ++i) {
    NodePtr accumulator = autograd::impl::grad_accumulator(*watched[i]);
    if (!accumulator) continue;
    auto hook = std::make_unique<ParameterHook>(state_, record, names[i], slots[i]);
    const std::lock_guard lock(state_->mutex);
    state_->parameters.push_back({accumulator, hook.get()});
    accumulator->add_pre_hook(std::move(hook));
  }
}

void BackwardWatch::flush() { state_->complete(); }

void BackwardWatch::end_step() {
  ++state_->step;
  // What they own goes when the mutex is free: a graph may hang on it, and calls on that.
  std::vector<BackwardState::Parameter> parameters;
  {
    const std::lock_guard lock(state_->mutex);
    parameters.swap(state_->parameters);
    state_->started.clear();
  }
  for (const auto& [accumulator, hook] : parameters) {
    auto& hooks = accumulator->pre_hooks();
    std::erase_if(hooks, [h = hook](const auto& present) { return present.get() == h; });
  }
}

}  // namespace msprobe::torch_adapter

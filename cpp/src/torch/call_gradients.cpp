// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/SequenceNumber.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "dump/object_pool.h"
#include "msprobe/log.h"
#include "msprobe/torch_monitor.h"
#include "torch/call_places.h"
#include "torch/out_of_sight.h"
#include "torch/tensor.h"

namespace msprobe::torch_adapter {
namespace {

namespace autograd = torch::autograd;
using dump::Pooled;

// Runs inside of the engine, where an exception would end the training.
template <typename Work>
void guarded(Work work) {
  try {
    work();
  } catch (const std::exception& e) {
    log(LogLevel::kWarning, std::string("monitor: a gradient is not measured: ") + e.what());
  }
}

}  // namespace

struct WatchedCall {
  // One gradient of a call. Several contributions are added up in a copy of ours, as autograd adds them.
  struct Gradient {
    at::Tensor sum;
    std::uint16_t expected = 0;
    std::uint16_t arrived = 0;
    std::uint16_t index = 0;  // among the inputs or outputs of the call
    bool mixed = false;       // parts that cannot be added up in this process
  };

  std::uint64_t step = 0;
  std::unique_ptr<CallGradients::Listener> listener;
  std::vector<Gradient> outputs;
  std::vector<Gradient> inputs;
  int missing = 0;
  bool started = false;
  std::mutex mutex;

  std::vector<Gradient>& side(bool of_output) { return of_output ? outputs : inputs; }

  void begin_round() {
    missing = 0;
    started = false;
    for (std::vector<Gradient>* side : {&outputs, &inputs}) {
      for (Gradient& gradient : *side) {
        gradient.arrived = 0;
        gradient.sum = at::Tensor();
        missing += gradient.expected;
      }
    }
  }

  static void add(Gradient& gradient, const at::Tensor& part) {
    if (!part.defined()) return;
    if (runs_in_python(part)) {
      gradient.mixed = true;
      return;
    }
    const OutOfSight out_of_sight;
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    gradient.sum = gradient.sum.defined() ? gradient.sum + part : part.clone();
  }

  // True when the call is complete.
  bool arrive(bool of_output, std::size_t place, const at::Tensor& part) {
    if (missing == 0) begin_round();  // the graph was kept, and runs again
    started = true;
    Gradient& gradient = side(of_output)[place];
    ++gradient.arrived;
    if (gradient.expected == 1) {
      listener->arrived(of_output, gradient.index, part);
    } else {
      add(gradient, part);
      if (gradient.arrived == gradient.expected) {
        listener->arrived(of_output, gradient.index, gradient.mixed ? at::Tensor() : gradient.sum);
        gradient.sum = at::Tensor();
      }
    }
    return --missing == 0;
  }

  // Nothing more comes: what is there of a sum is all of it.
  void end_early() {
    for (const bool of_output : {true, false}) {
      for (Gradient& gradient : side(of_output)) {
        if (!gradient.sum.defined()) continue;
        listener->arrived(of_output, gradient.index, gradient.mixed ? at::Tensor() : gradient.sum);
      }
    }
    listener->complete();
  }
};

struct CallGradients::State : std::enable_shared_from_this<CallGradients::State> {
  struct Started {
    std::weak_ptr<WatchedCall> call;
    int pass;  // the backward that runs, as the engine numbers them
  };

  std::atomic<std::uint64_t> step{0};
  std::mutex mutex;
  std::vector<Started> started;
  int noted_pass = -1;  // the last whose end is awaited

  // In the engine. Where the rest never comes, because an output is not used or an input not reached, the
  // call is complete when the backward ends.
  void note_started(const std::shared_ptr<WatchedCall>& call) {
    const int pass = autograd::get_current_graph_task_id();
    const std::lock_guard lock(mutex);
    started.push_back({call, pass});
    if (pass < 0 || pass == noted_pass) return;
    noted_pass = pass;
    autograd::Engine::get_default_engine().queue_callback(
        [self = shared_from_this(), pass] { guarded([&] { self->complete(pass); }); });
  }

  void forget(const WatchedCall* call) {
    const std::lock_guard lock(mutex);
    std::erase_if(started, [&](const Started& entry) {
      const auto known = entry.call.lock();
      return !known || known.get() == call;
    });
  }

  // Those of one backward; without a number all.
  void complete(std::optional<int> pass) {
    std::vector<std::shared_ptr<WatchedCall>> calls;
    {
      const std::lock_guard lock(mutex);
      std::erase_if(started, [&](const Started& entry) {
        if (pass && entry.pass != *pass) return false;
        if (auto call = entry.call.lock()) calls.push_back(std::move(call));
        return true;
      });
    }
    for (const auto& call : calls) {
      const std::lock_guard lock(call->mutex);
      if (!call->started) continue;
      guarded([&] { call->end_early(); });
      call->begin_round();
    }
  }
};

struct CallGradients::Before {
  std::uint64_t first_node = 0;
  GradientEdges edges;
};

namespace {

template <typename State>
void deliver_gradients(State& state, const std::shared_ptr<WatchedCall>& call, const Places& places,
                       const autograd::variable_list& gradients) {
  if (state.step.load(std::memory_order_relaxed) != call->step) return;
  guarded([&] {
    const std::lock_guard lock(call->mutex);
    for (const Place& place : places) {
      const bool is_first = !call->started;
      const bool is_last = call->arrive(place.of_output, place.index, gradients[place.number]);
      if (is_last) {
        if (!is_first) state.forget(call.get());
        call->started = false;
        call->listener->complete();
      } else if (is_first) {
        state.note_started(call);
      }
    }
  });
}

template <typename State>
struct WatchedArrivalHook final : autograd::FunctionPreHook, Pooled {
  WatchedArrivalHook(std::shared_ptr<State> of, std::shared_ptr<WatchedCall> watched, Places at)
      : state(std::move(of)), call(std::move(watched)), places(std::move(at)) {}
  autograd::variable_list operator()(const autograd::variable_list& gradients) override {
    deliver_gradients(*state, call, places, gradients);
    return gradients;
  }
  // A graph compiled by torch's compiled autograd runs without this hook.
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs&) const override {}
  std::shared_ptr<State> state;
  std::shared_ptr<WatchedCall> call;
  Places places;
};

template <typename State>
struct WatchedDepartureHook final : autograd::FunctionPostHook, Pooled {
  WatchedDepartureHook(std::shared_ptr<State> of, std::shared_ptr<WatchedCall> watched, Places at)
      : state(std::move(of)), call(std::move(watched)), places(std::move(at)) {}
  autograd::variable_list operator()(const autograd::variable_list& outputs,
                                     const autograd::variable_list&) override {
    deliver_gradients(*state, call, places, outputs);
    return outputs;
  }
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs&) const override {}
  std::shared_ptr<State> state;
  std::shared_ptr<WatchedCall> call;
  Places places;
};

// A call around others that returns what they return has its gradient before them, as with torch's own hooks
// of modules.
template <typename State>
void add_first(autograd::Node& node, std::unique_ptr<WatchedArrivalHook<State>> hook) {
  node.add_pre_hook(std::move(hook));
  auto& hooks = node.pre_hooks();
  const auto is_ours = [](const auto& one) {
    return dynamic_cast<const WatchedArrivalHook<State>*>(one.get()) != nullptr;
  };
  std::rotate(std::find_if(hooks.begin(), hooks.end(), is_ours), std::prev(hooks.end()), hooks.end());
}

}  // namespace

CallGradients::CallGradients() : state_(std::make_shared<State>()) {}

CallGradients::~CallGradients() { end_step(); }

std::shared_ptr<CallGradients::Before> CallGradients::before_call(std::span<const at::Tensor> inputs) {
  auto before = std::make_shared<Before>();
  before->first_node = at::sequence_number::peek();
  before->edges.reserve(inputs.size());
  for (const at::Tensor& input : inputs) before->edges.push_back(edge_of(input));
  return before;
}

void CallGradients::after_call(const std::shared_ptr<Before>& before, std::span<const at::Tensor> inputs,
                               std::span<const at::Tensor> outputs, std::unique_ptr<Listener> listener) {
  if (!before) return;
  auto call = std::make_shared<WatchedCall>();
  call->step = state_->step.load();
  call->listener = std::move(listener);
  GradientEdges ends;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!has_end(outputs[i])) continue;
    ends.emplace_back(outputs[i].grad_fn(), static_cast<std::uint32_t>(outputs[i].output_nr()));
    call->outputs.emplace_back().index = static_cast<std::uint16_t>(i);
  }
  if (ends.empty()) return;
  GradientEdges& starts = before->edges;
  starts.resize(inputs.size());
  bool any = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    // A leaf has no accumulator, and a stale view no node, before the call that first uses it.
    if (!starts[i].first) starts[i] = edge_of(inputs[i]);
    any = any || (inputs[i].defined() && inputs[i].requires_grad());
  }
  if (!any) starts.clear();
  CallPlaces places = places_of_call(before->first_node, starts, ends);
  for (std::size_t i = 0; i < ends.size(); ++i) call->outputs[i].expected = places.expected_outputs[i];
  for (std::size_t i = 0; i < starts.size(); ++i) {
    WatchedCall::Gradient& gradient = call->inputs.emplace_back();
    gradient.index = static_cast<std::uint16_t>(i);
    gradient.expected = places.expected_inputs[i];
  }
  call->begin_round();
  for (WatchedNode& entry : places.nodes) {
    if (!entry.arriving.empty()) {
      add_first<State>(*entry.node,
                       std::make_unique<WatchedArrivalHook<State>>(state_, call, std::move(entry.arriving)));
    }
    if (!entry.leaving.empty()) {
      entry.node->add_post_hook(
          std::make_unique<WatchedDepartureHook<State>>(state_, call, std::move(entry.leaving)));
    }
  }
}

void CallGradients::end_step() {
  state_->complete(std::nullopt);
  ++state_->step;
}

}  // namespace msprobe::torch_adapter

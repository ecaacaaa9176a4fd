// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/SequenceNumber.h>
#include <c10/core/GradMode.h>
#include <c10/util/SmallVector.h>
#include <c10/util/flat_hash_map.h>
#include <torch/csrc/autograd/function_hook.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string_view>

#include "msprobe/torch_dump.h"
#include "torch/call_backward.h"
#include "torch/call_places.h"
#include "torch/gradient_edge.h"
#include "torch/object_pool.h"

namespace msprobe::torch_adapter {
namespace {

namespace autograd = torch::autograd;
using autograd::Node;

}  // namespace

struct BackwardWatch::Inputs {
  std::uint64_t first_node = 0;  // nodes of the call have this number or a higher one
  GradientEdges edges;
};

namespace {

void deliver(CallBackward& call, const Places& places, const autograd::variable_list& gradients) {
  if (call.state->step.load(std::memory_order_relaxed) != call.step) {
    call.state->recorder.note_late();
    return;
  }
  guarded(call.state->recorder, call.name, [&] {
    const std::lock_guard lock(call.mutex);
    for (const Place& place : places) {
      call.state->arrive(call, place.of_output, place.index, gradients[place.number]);
    }
  });
}

// What arrives at a node, before it runs. Used for modules, so that one without input gradients stands before
// the calls inside of it, as a module that begins its backward does.
struct ArrivalHook final : autograd::FunctionPreHook, Pooled {
  ArrivalHook(std::shared_ptr<CallBackward> of, Places at) : call(std::move(of)), places(std::move(at)) {}
  autograd::variable_list operator()(const autograd::variable_list& gradients) override {
    deliver(*call, places, gradients);
    return gradients;
  }
  // A graph compiled by torch's compiled autograd runs without this hook.
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs&) const override {}
  std::shared_ptr<CallBackward> call;
  Places places;
};

// What arrived at a node and what leaves it, after it ran.
struct DepartureHook final : autograd::FunctionPostHook, Pooled {
  DepartureHook(std::shared_ptr<CallBackward> of, Places in, Places out)
      : call(std::move(of)), arriving(std::move(in)), leaving(std::move(out)) {}
  autograd::variable_list operator()(const autograd::variable_list& outputs,
                                     const autograd::variable_list& inputs) override {
    if (!arriving.empty()) deliver(*call, arriving, inputs);
    if (!leaving.empty()) deliver(*call, leaving, outputs);
    return outputs;
  }
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs&) const override {}
  std::shared_ptr<CallBackward> call;
  Places arriving;
  Places leaving;
};

// The backward of a call that made one node: all of its gradients pass in one moment, so nothing waits for
// anything. Most calls of functions are such.
struct OneNodeHook final : autograd::FunctionPostHook, Pooled {
  static constexpr std::int16_t kNone = -1;    // an input without gradient
  static constexpr std::int16_t kHidden = -2;  // an input that has no place in the record

  OneNodeHook(std::shared_ptr<BackwardState> owner, std::string_view call)
      : state(std::move(owner)),
        step(state->step.load(std::memory_order_relaxed)),
        module(state->recorder.innermost()),
        name(call.begin(), call.end()) {}

  autograd::variable_list operator()(const autograd::variable_list& leaving,
                                     const autograd::variable_list& arriving) override {
    if (state->step.load(std::memory_order_relaxed) == step) {
      guarded(state->recorder, name_text(), [&] { write(leaving, arriving); });
    } else {
      state->recorder.note_late();
    }
    return leaving;
  }
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs&) const override {}

  std::string_view name_text() const { return {name.data(), name.size()}; }

  void write(const autograd::variable_list& leaving, const autograd::variable_list& arriving) const {
    dump::Recorder& recorder = state->recorder;
    const dump::Options& options = recorder.options();
    const bool kept = recorder.keeps_backward(name_text(), module.get());
    thread_local trace::ElementWriter of_outputs;
    thread_local trace::ElementWriter of_inputs;
    of_outputs.clear();
    of_inputs.clear();
    if (kept && options.data) {
      const bool stores = recorder.stores(name_text());
      std::size_t position = 0;
      for (const std::uint16_t number : outputs) {
        describe(of_outputs, arriving[number], position_of(true, stores, position++));
      }
      position = 0;
      for (const std::int16_t edge : inputs) {
        if (edge == kHidden) continue;
        describe(of_inputs, edge == kNone ? at::Tensor() : leaving[static_cast<std::size_t>(edge)],
                 position_of(false, stores, position++));
      }
    }
    recorder.place_backward(name_text(), module.get());
    if (!kept) return;
    const trace::RecordId record = recorder.record(trace::RecordKind::kApiBackward, name_text());
    if (!options.data) return;
    if (options.input) recorder.part(record, trace::Part::kInput, of_outputs.bytes());
    if (!options.output) return;
    recorder.part(record, trace::Part::kOutput, of_inputs.bytes());
    recorder.note_output(name_text(), of_inputs.worst());
  }

  void describe(trace::ElementWriter& out, const at::Tensor& gradient, const std::string& position) const {
    state->describer.describe(out, gradient, name_text(), position);
  }

  std::shared_ptr<BackwardState> state;
  std::uint64_t step;  // hooks of another step do nothing
  std::shared_ptr<const dump::Frame> module;
  c10::SmallVector<char, 40> name;             // of the backward record
  c10::SmallVector<std::uint16_t, 2> outputs;  // for each output of the call, the number of it at the node
  c10::SmallVector<std::int16_t, 6> inputs;    // for each input of the call, the edge of the node to it
};

// Of a parameter: the gradient of this backward, before it is added to `.grad`.
struct ParameterHook final : autograd::FunctionPreHook, Pooled {
  ParameterHook(std::shared_ptr<BackwardState> owner, std::shared_ptr<ParameterRecord> of,
                std::string parameter, trace::SlotId slot_id)
      : state(std::move(owner)),
        record(std::move(of)),
        parameter_name(std::move(parameter)),
        slot(slot_id),
        step(state->step.load()) {}
  autograd::variable_list operator()(const autograd::variable_list& gradients) override {
    if (state->step.load(std::memory_order_relaxed) == step && !gradients.empty() && gradients[0].defined()) {
      guarded(state->recorder, record->name, [&] {
        if (!record->written && !state->recorder.keeps(record->name)) return;
        record->write(state->recorder);
        state->describer.fill(slot, gradients[0], record->name, parameter_name);
      });
    }
    return gradients;
  }
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs&) const override {}
  std::shared_ptr<BackwardState> state;
  std::shared_ptr<ParameterRecord> record;
  std::string parameter_name;
  trace::SlotId slot;
  std::uint64_t step;
};

}  // namespace

BackwardWatch::BackwardWatch(dump::Recorder& recorder, TensorDescriber& describer)
    : state_(std::make_shared<BackwardState>(recorder, describer)) {}

BackwardWatch::~BackwardWatch() { end_step(); }

std::shared_ptr<BackwardWatch::Inputs> BackwardWatch::before_call(const std::vector<at::Tensor>& inputs) {
  auto result = std::allocate_shared<Inputs>(PoolAllocator<Inputs>());
  result->first_node = at::sequence_number::peek();
  result->edges.reserve(inputs.size());
  for (const at::Tensor& input : inputs) result->edges.push_back(edge_of(input));
  return result;
}

namespace {

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
  const dump::Options& options = state->recorder.options();
  if (options.only_overflow) return false;
  Node* node = ends[0].first.get();
  const auto is_other = [&](const auto& end) { return end.first.get() != node; };
  if (!graph.is_inside(node) || std::any_of(ends.begin(), ends.end(), is_other)) return false;
  const auto& edges = node->next_edges();
  const auto is_inner = [&](const auto& edge) {
    return edge.function && graph.is_inside(edge.function.get());
  };
  if (edges.size() > kMostEdges || std::any_of(edges.begin(), edges.end(), is_inner)) return false;
  auto hook = std::make_unique<OneNodeHook>(state, dump::backward_name(forward_name));
  if (options.data) {
    for (const auto& end : ends) hook->outputs.push_back(static_cast<std::uint16_t>(end.second));
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

}  // namespace

void BackwardWatch::after_call(const std::shared_ptr<Inputs>& before, const std::vector<at::Tensor>& inputs,
                               const std::vector<at::Tensor>& outputs, std::string_view forward_name,
                               bool module) {
  if (!before || !state_->recorder.options().backward) return;
  GradientEdges ends;  // of outputs that have gradients
  for (const at::Tensor& output : outputs) {
    if (!has_end(output)) continue;
    ends.emplace_back(output.grad_fn(), static_cast<std::uint32_t>(output.output_nr()));
  }
  if (ends.empty()) return;

  GradientEdges& starts = before->edges;
  starts.resize(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    // A leaf has no accumulator, and a stale view no node, before the call that first uses it.
    if (!starts[i].first) starts[i] = edge_of(inputs[i]);
  }
  // A module whose inputs have no gradients at all, an embedding, shows none.
  const auto has_gradient = [](const at::Tensor& input) { return input.defined() && input.requires_grad(); };
  if (module && std::none_of(inputs.begin(), inputs.end(), has_gradient)) starts.clear();
  CallGraph graph(before->first_node, starts);
  if (!module && watch_one_node(state_, graph, ends, inputs, forward_name)) return;

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
  call->begin_round();

  for (WatchedNode& entry : places.nodes) {
    if (!entry.arriving.empty() && (module || entry.passes_through)) {
      entry.node->add_pre_hook(std::make_unique<ArrivalHook>(call, std::move(entry.arriving)));
      entry.arriving.clear();
    }
    if (entry.arriving.empty() && entry.leaving.empty()) continue;
    entry.node->add_post_hook(
        std::make_unique<DepartureHook>(call, std::move(entry.arriving), std::move(entry.leaving)));
  }
}

void BackwardWatch::watch_parameters(std::string_view name,
                                     const std::vector<std::pair<std::string, at::Tensor>>& parameters) {
  auto record = std::allocate_shared<ParameterRecord>(PoolAllocator<ParameterRecord>());
  record->name = name;
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->parameter_record_names.insert(record->name).second) return;
    state_->parameter_records.push_back(record);
  }
  const dump::Options& options = state_->recorder.options();
  thread_local trace::ElementWriter out;
  out.clear();
  out.begin_object();
  bool any = false;
  for (const auto& [parameter_name, parameter] : parameters) {
    if (!parameter.defined() || !parameter.requires_grad() || !parameter.is_leaf()) continue;
    const trace::SlotId slot = state_->recorder.new_slot();
    out.key(parameter_name);
    out.begin_list();
    out.slot(slot);
    out.end();
    any = true;
    if (!options.data && options.scope.empty()) continue;  // nothing is said of the gradient
    NodePtr accumulator = autograd::impl::grad_accumulator(parameter);
    if (!accumulator) continue;
    auto hook = std::make_unique<ParameterHook>(state_, record, parameter_name, slot);
    const std::lock_guard lock(state_->mutex);
    state_->parameters.push_back({accumulator, hook.get()});
    accumulator->add_pre_hook(std::move(hook));
  }
  out.end();
  if (!any) return;
  record->elements = out.bytes();
  // A place beside the forward; under a scope only when a gradient comes inside of it.
  if (options.scope.empty()) record->write(state_->recorder);
}

void BackwardWatch::flush() {
  std::vector<std::shared_ptr<CallBackward>> calls;
  {
    const std::lock_guard lock(state_->mutex);
    for (const BackwardState::Started& entry : state_->started) {
      if (auto call = entry.owner.lock()) calls.push_back(std::move(call));
    }
  }
  for (const auto& call : calls) {
    const std::lock_guard lock(call->mutex);
    if (!call->started) continue;
    state_->forget_started(*call);
    guarded(state_->recorder, call->name, [&] { state_->write(*call); });
  }
}

void BackwardWatch::end_step() {
  ++state_->step;
  // What they own goes when the mutex is free: a graph may hang on it, and calls on that.
  std::vector<BackwardState::Parameter> parameters;
  std::vector<std::shared_ptr<ParameterRecord>> records;
  {
    const std::lock_guard lock(state_->mutex);
    parameters.swap(state_->parameters);
    records.swap(state_->parameter_records);
    state_->parameter_record_names.clear();
    state_->started.clear();
  }
  for (const auto& [accumulator, hook] : parameters) {
    auto& hooks = accumulator->pre_hooks();
    std::erase_if(hooks, [h = hook](const auto& present) { return present.get() == h; });
  }
}

}  // namespace msprobe::torch_adapter

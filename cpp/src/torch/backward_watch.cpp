// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/SequenceNumber.h>
#include <c10/core/GradMode.h>
#include <c10/util/flat_hash_map.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <unordered_set>

#include "msprobe/torch_dump.h"

namespace msprobe::torch_adapter {
namespace {

namespace autograd = torch::autograd;
using autograd::Node;
using NodePtr = std::remove_cvref_t<decltype(std::declval<const at::Tensor&>().grad_fn())>;

// A gradient edge: output number `output` of `node`.
struct Edge {
  const Node* node = nullptr;
  std::uint32_t output = 0;
  bool operator==(const Edge&) const = default;
};

// AccumulateGrad nodes carry this number: they end every walk.
constexpr std::uint64_t kLeafSequence = std::numeric_limits<std::uint64_t>::max();

// A view whose base was changed in place gets a new node when it is asked for one. Asking is left to the
// training, or nodes would be numbered in another order than without us.
bool has_stale_node(const at::Tensor& tensor) {
  const auto* view = autograd::impl::get_view_autograd_meta(tensor);
  return view != nullptr && view->has_bw_view() && tensor._version() != view->get_attr_version();
}

// Where gradients of `tensor` go. Node null: it has none, or none yet.
std::pair<NodePtr, std::uint32_t> edge_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.requires_grad()) return {};
  if (tensor.is_inference() || has_stale_node(tensor)) return {};
  if (tensor.is_leaf()) {
    return {autograd::impl::try_get_grad_accumulator(static_cast<const autograd::Variable&>(tensor)), 0};
  }
  return {tensor.grad_fn(), static_cast<std::uint32_t>(tensor.output_nr())};
}

}  // namespace

struct BackwardWatch::Inputs {
  std::uint64_t first_node = 0;  // nodes of the call have this number or a higher one
  std::vector<std::pair<NodePtr, std::uint32_t>> edges;
};

namespace {

// The backward of one call: what arrived so far.
class CallBackward {
 public:
  CallBackward(std::string name, std::shared_ptr<const dump::Frame> module, bool is_module,
               std::size_t outputs, std::size_t inputs)
      : name_(std::move(name)),
        module_(std::move(module)),
        is_module_(is_module),
        outputs_(outputs),
        inputs_(inputs) {}

  // One gradient, or the sum of what came so far for it.
  struct Gradient {
    at::Tensor value;
    int expected = 0;  // contributions until it is complete
    int arrived = 0;
    bool shown = true;  // integers never have one, and no place in the record of an API
  };

  std::string name_;
  std::shared_ptr<const dump::Frame> module_;
  bool is_module_;
  std::vector<Gradient> outputs_;  // gradients of the call's outputs
  std::vector<Gradient> inputs_;   // gradients of the call's inputs
  int missing_ = 0;                // contributions until all are complete
  bool started_ = false;
  std::mutex mutex_;

  void begin_round() {
    missing_ = 0;
    for (auto* side : {&outputs_, &inputs_}) {
      for (Gradient& gradient : *side) {
        gradient.value = at::Tensor();
        gradient.arrived = 0;
        missing_ += gradient.expected;
      }
    }
    started_ = false;
  }
};

void add(CallBackward::Gradient& gradient, const at::Tensor& contribution) {
  ++gradient.arrived;
  if (!contribution.defined()) return;
  if (!gradient.value.defined()) {
    gradient.value = contribution;
    return;
  }
  const c10::NoGradGuard no_grad;
  gradient.value = gradient.value.detach() + contribution.detach();
}

}  // namespace

struct BackwardState {
  BackwardState(dump::Recorder& recorder_, TensorDescriber& describer_)
      : recorder(recorder_), describer(describer_) {}

  dump::Recorder& recorder;
  TensorDescriber& describer;
  std::atomic<std::uint64_t> step{0};  // hooks of another step do nothing
  std::mutex mutex;
  std::vector<std::weak_ptr<CallBackward>> calls;  // that may be incomplete at a flush
  struct Parameter {
    NodePtr accumulator;
    const autograd::FunctionPreHook* hook;
  };
  std::vector<Parameter> parameters;
  std::unordered_set<std::string> parameter_records;

  void write(CallBackward& call) {
    const dump::Options& options = recorder.options();
    recorder.place_backward(call.name_, call.module_.get());
    if (!options.backward || !recorder.keeps(call.name_)) return;
    const auto kind = call.is_module_ ? trace::RecordKind::kModuleBackward : trace::RecordKind::kApiBackward;
    const trace::RecordId record = recorder.record(kind, call.name_);
    if (options.input) write_part(record, trace::Part::kInput, "input", call.name_, call.outputs_);
    if (options.output) write_part(record, trace::Part::kOutput, "output", call.name_, call.inputs_);
  }

  void write_part(trace::RecordId record, trace::Part part, std::string_view category,
                  const std::string& name, const std::vector<CallBackward::Gradient>& gradients) {
    trace::ElementWriter out;
    std::size_t position = 0;
    for (const CallBackward::Gradient& gradient : gradients) {
      if (!gradient.shown) continue;
      describer.describe(out, gradient.value, name, std::string(category) + "." + std::to_string(position++));
    }
    recorder.part(record, part, out.bytes());
  }

  // A contribution arrived. Called from the engine's threads.
  void arrive(CallBackward& call, std::vector<CallBackward::Gradient> CallBackward::* side, std::size_t index,
              const at::Tensor& value) {
    const std::lock_guard lock(call.mutex_);
    if (call.missing_ == 0) call.begin_round();  // the graph was kept, and runs again
    call.started_ = true;
    add((call.*side)[index], value);
    if (--call.missing_ == 0) finish(call);
  }

  void finish(CallBackward& call) {
    write(call);
    call.started_ = false;
    call.missing_ = 0;
    for (auto* gradients : {&call.outputs_, &call.inputs_}) {
      for (auto& gradient : *gradients) gradient.value = at::Tensor();  // no longer ours to keep alive
    }
  }
};

namespace {

// Everything below runs inside of the engine, where an exception would end the training.
template <typename Work>
void guarded(dump::Recorder& recorder, const std::string& name, Work work) {
  try {
    work();
  } catch (const std::exception& e) {
    recorder.note_fault(name, e.what());
  }
}

}  // namespace

// What the hooks of one node do for one call.
struct WatchedNode {
  std::shared_ptr<BackwardState> state;
  std::shared_ptr<CallBackward> call;
  std::uint64_t step = 0;
  std::vector<std::pair<std::uint32_t, std::size_t>> outputs;         // node output -> output of the call
  std::vector<std::pair<std::uint32_t, std::size_t>> passes_through;  // node output -> input of the call
  std::vector<std::pair<std::uint32_t, std::size_t>> inputs;          // next edge -> input of the call

  bool is_current() const { return state->step.load(std::memory_order_relaxed) == step; }

  void gradients_arrive(const autograd::variable_list& gradients) const {
    for (const auto& [number, index] : outputs) {
      state->arrive(*call, &CallBackward::outputs_, index, gradients[number]);
    }
    for (const auto& [number, index] : passes_through) {
      state->arrive(*call, &CallBackward::inputs_, index, gradients[number]);
    }
  }

  void gradients_leave(const autograd::variable_list& gradients) const {
    for (const auto& [edge, index] : inputs)
      state->arrive(*call, &CallBackward::inputs_, index, gradients[edge]);
  }
};

namespace {

// Of a module: what arrives is seen before the node runs, so that a module without input gradients stands
// before the calls inside of it, as a module that begins its backward does.
struct ArrivalHook final : autograd::FunctionPreHook {
  explicit ArrivalHook(std::shared_ptr<const WatchedNode> watched) : node(std::move(watched)) {}
  autograd::variable_list operator()(const autograd::variable_list& gradients) override {
    if (node->is_current()) {
      guarded(node->state->recorder, node->call->name_, [&] { node->gradients_arrive(gradients); });
    }
    return gradients;
  }
  // A graph compiled by torch's compiled autograd runs without this hook.
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs&) const override {}
  std::shared_ptr<const WatchedNode> node;
};

struct DepartureHook final : autograd::FunctionPostHook {
  DepartureHook(std::shared_ptr<const WatchedNode> watched, bool arrivals)
      : node(std::move(watched)), both(arrivals) {}
  autograd::variable_list operator()(const autograd::variable_list& outputs,
                                     const autograd::variable_list& inputs) override {
    if (node->is_current()) {
      guarded(node->state->recorder, node->call->name_, [&] {
        if (both) node->gradients_arrive(inputs);
        node->gradients_leave(outputs);
      });
    }
    return outputs;
  }
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs&) const override {}
  std::shared_ptr<const WatchedNode> node;
  bool both;
};

// Of a parameter: the gradient of this backward, before it is added to `.grad`.
struct ParameterHook final : autograd::FunctionPreHook {
  ParameterHook(std::shared_ptr<BackwardState> owner, std::string record, std::string parameter,
                trace::SlotId slot_id)
      : state(std::move(owner)),
        record_name(std::move(record)),
        parameter_name(std::move(parameter)),
        slot(slot_id),
        step(state->step.load()) {}
  autograd::variable_list operator()(const autograd::variable_list& gradients) override {
    if (state->step.load(std::memory_order_relaxed) == step && !gradients.empty() && gradients[0].defined()) {
      guarded(state->recorder, record_name, [&] {
        trace::ElementWriter out;
        state->describer.describe(out, gradients[0], record_name, parameter_name);
        state->recorder.fill(slot, out.bytes());
      });
    }
    return gradients;
  }
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs&) const override {}
  std::shared_ptr<BackwardState> state;
  std::string record_name;
  std::string parameter_name;
  trace::SlotId slot;
  std::uint64_t step;
};

// Walks the nodes that a call made, from its outputs, and says where gradients leave it towards its inputs.
class CallGraph {
 public:
  explicit CallGraph(std::uint64_t first_node) : first_node_(first_node) {}

  void add_input(Edge edge, std::size_t index) {
    if (edge.node != nullptr) inputs_[edge.node].push_back({edge.output, index});
  }

  bool is_inside(const Node* node) const {
    return node->sequence_nr() != kLeafSequence && node->sequence_nr() >= first_node_;
  }

  // Indices of the inputs at this edge, in order; null: no input hangs there.
  std::vector<std::size_t> inputs_at(const Node* node, std::uint32_t output) const {
    std::vector<std::size_t> found;
    if (const auto at_node = inputs_.find(node); at_node != inputs_.end()) {
      for (const auto& [number, index] : at_node->second) {
        if (number == output) found.push_back(index);
      }
    }
    return found;
  }

  // Calls use(node, edge number, target node, target output) for every edge that leaves the call.
  template <typename Use>
  void for_each_exit(const Node* start, Use use) {
    if (!is_inside(start) || !seen_.insert(start).second) return;
    pending_.push_back(start);
    while (!pending_.empty()) {
      const Node* node = pending_.back();
      pending_.pop_back();
      const auto& edges = node->next_edges();
      for (std::uint32_t i = 0; i < edges.size(); ++i) {
        const Node* next = edges[i].function.get();
        if (next == nullptr) continue;
        if (inputs_.find(next) != inputs_.end()) use(node, i, next, edges[i].input_nr);
        if (is_inside(next) && seen_.insert(next).second) pending_.push_back(next);
      }
    }
  }

 private:
  std::uint64_t first_node_;
  ska::flat_hash_map<const Node*, std::vector<std::pair<std::uint32_t, std::size_t>>> inputs_;
  ska::flat_hash_set<const Node*> seen_;
  std::vector<const Node*> pending_;
};

}  // namespace

BackwardWatch::BackwardWatch(dump::Recorder& recorder, TensorDescriber& describer)
    : state_(std::make_shared<BackwardState>(recorder, describer)) {}

BackwardWatch::~BackwardWatch() { end_step(); }

std::shared_ptr<BackwardWatch::Inputs> BackwardWatch::before_call(const std::vector<at::Tensor>& inputs) {
  auto result = std::make_shared<Inputs>();
  result->first_node = at::sequence_number::peek();
  result->edges.reserve(inputs.size());
  for (const at::Tensor& input : inputs) result->edges.push_back(edge_of(input));
  return result;
}

void BackwardWatch::after_call(const std::shared_ptr<Inputs>& before, const std::vector<at::Tensor>& inputs,
                               const std::vector<at::Tensor>& outputs, std::string_view forward_name,
                               bool module) {
  if (!before || !state_->recorder.options().backward) return;
  CallGraph graph(before->first_node);
  std::vector<std::pair<NodePtr, std::uint32_t>> ends;  // of outputs that have gradients
  for (const at::Tensor& output : outputs) {
    if (!output.defined() || !output.requires_grad() || output.is_leaf() || has_stale_node(output)) continue;
    ends.emplace_back(output.grad_fn(), static_cast<std::uint32_t>(output.output_nr()));
  }
  if (ends.empty()) return;

  for (std::size_t i = 0; i < inputs.size(); ++i) {
    // A leaf has no accumulator, and a stale view no node, before the call that first uses it.
    auto edge = i < before->edges.size() ? before->edges[i] : std::pair<NodePtr, std::uint32_t>{};
    if (!edge.first) edge = edge_of(inputs[i]);
    graph.add_input({edge.first.get(), edge.second}, i);
    if (i < before->edges.size()) before->edges[i] = edge;  // alive until the walk is done
  }

  auto call = std::make_shared<CallBackward>(dump::backward_name(forward_name), state_->recorder.innermost(),
                                             module, ends.size(), inputs.size());
  ska::flat_hash_map<const Node*, std::shared_ptr<WatchedNode>> watched;
  std::vector<const Node*> order;
  const auto watch = [&](const Node* node) -> WatchedNode& {
    auto& entry = watched[node];
    if (!entry) {
      entry = std::make_shared<WatchedNode>();
      entry->state = state_;
      entry->call = call;
      entry->step = state_->step.load();
      order.push_back(node);
    }
    return *entry;
  };

  for (std::size_t i = 0; i < ends.size(); ++i) {
    const Node* node = ends[i].first.get();
    watch(node).outputs.emplace_back(ends[i].second, i);
    call->outputs_[i].expected = 1;
    if (graph.is_inside(node)) continue;
    for (const std::size_t input : graph.inputs_at(node, ends[i].second)) {  // the output is the input
      watch(node).passes_through.emplace_back(ends[i].second, input);
      ++call->inputs_[input].expected;
    }
  }
  // Inputs that are the same tensor share an edge: contributions are dealt out to them in the order of the
  // edges, and the last takes what is left over.
  ska::flat_hash_map<const Node*, std::size_t> dealt;
  for (const auto& end : ends) {
    graph.for_each_exit(end.first.get(),
                        [&](const Node* node, std::uint32_t edge, const Node* next, std::uint32_t number) {
                          const std::vector<std::size_t> candidates = graph.inputs_at(next, number);
                          if (candidates.empty()) return;
                          const std::size_t turn = std::min(dealt[next]++, candidates.size() - 1);
                          watch(node).inputs.emplace_back(edge, candidates[turn]);
                          ++call->inputs_[candidates[turn]].expected;
                        });
  }
  // A module whose inputs have no gradients at all, an embedding, shows none.
  const auto has_gradient = [](const at::Tensor& input) { return input.defined() && input.requires_grad(); };
  if (module && std::none_of(inputs.begin(), inputs.end(), has_gradient)) call->inputs_.clear();
  for (std::size_t i = 0; !module && i < inputs.size(); ++i) {
    const at::ScalarType type = inputs[i].scalar_type();
    call->inputs_[i].shown = at::isFloatingType(type) || at::isComplexType(type);
  }
  call->begin_round();

  for (const Node* node : order) {
    const std::shared_ptr<WatchedNode>& entry = watched[node];
    auto* const target =
        const_cast<Node*>(node);  // NOLINT(cppcoreguidelines-pro-type-const-cast): hooks are state
    const bool arrivals = !entry->outputs.empty() || !entry->passes_through.empty();
    const bool early = arrivals && (module || !entry->passes_through.empty());
    if (early) target->add_pre_hook(std::make_unique<ArrivalHook>(entry));
    if (!entry->inputs.empty() || (arrivals && !early)) {
      target->add_post_hook(std::make_unique<DepartureHook>(entry, arrivals && !early));
    }
  }
  const std::lock_guard lock(state_->mutex);
  state_->calls.push_back(call);
}

void BackwardWatch::watch_parameters(std::string_view name,
                                     const std::vector<std::pair<std::string, at::Tensor>>& parameters) {
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->parameter_records.emplace(name).second) return;
  }
  trace::ElementWriter out;
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
    NodePtr accumulator = autograd::impl::grad_accumulator(parameter);
    if (!accumulator) continue;
    auto hook = std::make_unique<ParameterHook>(state_, std::string(name), parameter_name, slot);
    const std::lock_guard lock(state_->mutex);
    state_->parameters.push_back({accumulator, hook.get()});
    accumulator->add_pre_hook(std::move(hook));
  }
  out.end();
  if (!any) return;
  state_->recorder.part(state_->recorder.record(trace::RecordKind::kParametersGrad, name),
                        trace::Part::kValue, out.bytes());
}

void BackwardWatch::flush() {
  std::vector<std::weak_ptr<CallBackward>> calls;
  {
    const std::lock_guard lock(state_->mutex);
    calls.swap(state_->calls);
  }
  std::vector<std::weak_ptr<CallBackward>> alive;
  for (const auto& weak : calls) {
    const auto call = weak.lock();
    if (!call) continue;
    alive.push_back(weak);
    const std::lock_guard lock(call->mutex_);
    if (call->started_) guarded(state_->recorder, call->name_, [&] { state_->write(*call); });
  }
  const std::lock_guard lock(state_->mutex);
  state_->calls.insert(state_->calls.end(), alive.begin(), alive.end());
}

void BackwardWatch::end_step() {
  ++state_->step;
  const std::lock_guard lock(state_->mutex);
  for (const auto& [accumulator, hook] : state_->parameters) {
    auto& hooks = accumulator->pre_hooks();
    std::erase_if(hooks, [h = hook](const auto& present) { return present.get() == h; });
  }
  state_->parameters.clear();
  state_->parameter_records.clear();
  state_->calls.clear();
}

}  // namespace msprobe::torch_adapter

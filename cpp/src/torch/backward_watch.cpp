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
#include "torch/gradient_edge.h"
#include "torch/object_pool.h"
#include "torch/out_of_sight.h"
#include "torch/tensor.h"

namespace msprobe::torch_adapter {
namespace {

namespace autograd = torch::autograd;
using autograd::Node;

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

// Gradient edges of tensors: output number of a node, null where there is none.
using Inputs = c10::SmallVector<std::pair<NodePtr, std::uint32_t>, 6>;
struct CallBackward;

struct BackwardWatch::Inputs {
  std::uint64_t first_node = 0;  // nodes of the call have this number or a higher one
  torch_adapter::Inputs edges;
};

namespace {

using PooledText = std::basic_string<char, std::char_traits<char>, PoolAllocator<char>>;

// One gradient of a call. It is described as soon as it is complete and then let go: a gradient that someone
// holds would be copied by autograd where it could be taken.
struct Gradient {
  PooledText element;                      // described; empty: did not come
  at::Tensor sum;                          // of several contributions, a copy of ours
  std::unique_ptr<std::string> placement;  // of the sum, where the contributions are DTensors
  std::uint16_t expected = 0;              // contributions until it is complete
  std::uint16_t arrived = 0;
  bool shown = true;  // integers never have one, and no place in the record of an API
  bool non_finite = false;
  bool mixed = false;  // contributions lie in different ways: their sum would take a collective
};
using Gradients = c10::SmallVector<Gradient, 2>;

}  // namespace

struct ParameterRecord;

// The backward of one call: what arrived so far.
struct CallBackward {
  CallBackward() = default;
  ~CallBackward();
  CallBackward(const CallBackward&) = delete;
  CallBackward& operator=(const CallBackward&) = delete;

  std::shared_ptr<BackwardState> state;
  std::uint64_t step = 0;  // hooks of another step do nothing
  PooledText name;
  std::shared_ptr<const dump::Frame> module;
  bool is_module = false;
  bool started = false;
  bool kept = false;
  Gradients outputs;  // gradients of the call's outputs
  Gradients inputs;   // gradients of the call's inputs
  int missing = 0;    // contributions until all are complete
  std::mutex mutex;

  Gradients& side(bool of_output) { return of_output ? outputs : inputs; }

  void begin_round() {
    missing = 0;
    started = false;
    for (Gradients* side : {&outputs, &inputs}) {
      for (Gradient& gradient : *side) {
        gradient.arrived = 0;
        gradient.element.clear();
        gradient.sum = at::Tensor();
        gradient.placement.reset();
        gradient.non_finite = gradient.mixed = false;
        missing += gradient.expected;
      }
    }
  }
};

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
  std::vector<std::shared_ptr<ParameterRecord>> parameter_records;
  ska::flat_hash_set<std::string_view> parameter_record_names;

  void write(CallBackward& call) {
    const dump::Options& options = recorder.options();
    recorder.place_backward(call.name, call.module.get());
    if (!call.kept) return;
    describe_incomplete(call);
    if (options.only_overflow) {
      if (recorder.has_enough_overflows() || !holds_overflow(call)) return;
      recorder.note_overflow();
    }
    const auto kind = call.is_module ? trace::RecordKind::kModuleBackward : trace::RecordKind::kApiBackward;
    const trace::RecordId record = recorder.record(kind, call.name);
    if (!options.data) return;
    if (options.input) write_part(record, trace::Part::kInput, call.outputs);
    if (options.output) write_part(record, trace::Part::kOutput, call.inputs);
  }

  // Sums of which a part never comes, because an output was not used.
  void describe_incomplete(CallBackward& call) {
    for (const bool of_output : {true, false}) {
      Gradients& side = call.side(of_output);
      for (std::size_t i = 0; i < side.size(); ++i) {
        if (side[i].sum.defined() && !side[i].mixed)
          describe(call, of_output, i, std::exchange(side[i].sum, at::Tensor()));
      }
    }
  }

  static bool holds_overflow(const CallBackward& call) {
    const auto non_finite = [](const Gradient& gradient) { return gradient.non_finite; };
    return std::any_of(call.outputs.begin(), call.outputs.end(), non_finite) ||
           std::any_of(call.inputs.begin(), call.inputs.end(), non_finite);
  }

  void write_part(trace::RecordId record, trace::Part part, const Gradients& gradients) {
    trace::ElementWriter none;
    none.null();
    std::string elements;
    for (const Gradient& gradient : gradients) {
      if (gradient.shown)
        elements += gradient.element.empty() ? none.bytes() : std::string_view(gradient.element);
    }
    recorder.part(record, part, elements);
  }

  // A contribution arrived. Called from the engine's threads.
  void arrive(CallBackward& call, bool of_output, std::size_t index, const at::Tensor& value) {
    if (call.missing == 0) call.begin_round();  // the graph was kept, and runs again
    if (!call.started) {
      call.started = true;
      call.kept = recorder.keeps_backward(call.name, call.module.get());
    }
    Gradient& gradient = call.side(of_output)[index];
    ++gradient.arrived;
    if (gradient.expected == 1) {
      describe(call, of_output, index, value);
    } else {
      add(gradient, value);
      if (gradient.arrived == gradient.expected) {
        if (!gradient.mixed) describe(call, of_output, index, gradient.sum);
        gradient.sum = at::Tensor();
      }
    }
    if (--call.missing > 0) return;
    write(call);
    call.started = false;
  }

  void add(Gradient& gradient, const at::Tensor& contribution) {
    if (!contribution.defined()) return;
    if (runs_in_python(contribution)) {
      add_local(gradient, contribution);
    } else {
      add_plain(gradient, contribution);
    }
  }

  void add_local(Gradient& gradient, const at::Tensor& contribution) {
    TensorDescriber::Local local = describer.local_of(contribution);
    if (!gradient.placement) gradient.placement = std::make_unique<std::string>(local.placement);
    gradient.mixed =
        gradient.mixed || *gradient.placement != local.placement || !why_unreadable(local.tensor).empty();
    if (!gradient.mixed) {
      add_plain(gradient, local.tensor);
    } else {
      recorder.note_skipped("a gradient whose parts are tensors that cannot be added up in this process");
    }
  }

  static void add_plain(Gradient& gradient, const at::Tensor& contribution) {
    const OutOfSight out_of_sight;
    if (gradient.sum.defined()) {
      gradient.sum = gradient.sum + contribution.detach();
    } else {
      gradient.sum = contribution.detach().clone();
    }
  }

  void describe(CallBackward& call, bool of_output, std::size_t index, const at::Tensor& value) {
    Gradients& side = call.side(of_output);
    Gradient& gradient = side[index];
    if (!call.kept || !gradient.shown || !value.defined() || !recorder.options().data) return;
    thread_local trace::ElementWriter out;
    out.clear();
    std::string file_position;
    if (recorder.stores(call.name)) {
      const auto before = std::count_if(side.begin(), side.begin() + static_cast<std::ptrdiff_t>(index),
                                        [](const Gradient& other) { return other.shown; });
      file_position = (of_output ? "input." : "output.") + std::to_string(before);
    }
    // With only_overflow a file that turns out not to be wanted must not exist: one look, then another.
    if (recorder.options().only_overflow) {
      describer.describe(out, value, {}, {});
      if (!out.non_finite()) {
        gradient.element = out.bytes();
        return;
      }
      out.clear();
    }
    describer.describe(out, value, call.name, file_position,
                       gradient.placement ? std::string_view(*gradient.placement) : std::string_view());
    gradient.non_finite = out.non_finite();
    gradient.element = out.bytes();
  }
};

namespace {

// Everything below runs inside of the engine, where an exception would end the training.
template <typename Work>
void guarded(dump::Recorder& recorder, std::string_view name, Work work) {
  try {
    work();
  } catch (const std::exception& e) {
    recorder.note_fault(name, e.what());
  }
}

}  // namespace

// The graph is gone, and something never came: an output was not used.
CallBackward::~CallBackward() {
  if (!started || !state || state->step.load() != step) return;
  guarded(state->recorder, name, [&] { state->write(*this); });
}

namespace {

// Which gradient of a call a number means: of a node's output, or of one of its next edges.
struct Place {
  std::uint32_t number;
  bool of_output;  // of the call; otherwise of an input
  std::uint16_t index;
};
using Places = c10::SmallVector<Place, 4>;

void deliver(CallBackward& call, const Places& places, const autograd::variable_list& gradients) {
  if (call.state->step.load(std::memory_order_relaxed) != call.step) return;
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
        describe(of_outputs, arriving[number], stores ? "input." + std::to_string(position++) : "");
      }
      position = 0;
      for (const std::int16_t edge : inputs) {
        if (edge == kHidden) continue;
        describe(of_inputs, edge == kNone ? at::Tensor() : leaving[static_cast<std::size_t>(edge)],
                 stores ? "output." + std::to_string(position++) : "");
      }
    }
    recorder.place_backward(name_text(), module.get());
    if (!kept) return;
    const trace::RecordId record = recorder.record(trace::RecordKind::kApiBackward, name_text());
    if (!options.data) return;
    if (options.input) recorder.part(record, trace::Part::kInput, of_outputs.bytes());
    if (options.output) recorder.part(record, trace::Part::kOutput, of_inputs.bytes());
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

}  // namespace

// The record of a module's parameters.
struct ParameterRecord {
  PooledText name;
  PooledText elements;  // one object with a slot for each parameter
  std::atomic<bool> written{false};

  void write(dump::Recorder& recorder) {
    if (written.exchange(true)) return;
    recorder.part(recorder.record(trace::RecordKind::kParametersGrad, name), trace::Part::kValue, elements);
  }
};

namespace {

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

// A set of nodes: most calls make one or two, a module may make thousands.
class NodeSet {
 public:
  // False when it was there.
  bool insert(const Node* node) {
    if (!large_.empty()) return large_.insert(node).second;
    if (std::find(small_.begin(), small_.end(), node) != small_.end()) return false;
    small_.push_back(node);
    if (small_.size() > kSmall) large_.insert(small_.begin(), small_.end());
    return true;
  }

 private:
  static constexpr std::size_t kSmall = 16;
  c10::SmallVector<const Node*, kSmall + 1> small_;
  ska::flat_hash_set<const Node*> large_;
};

// The nodes that a call made, and the edges by which gradients leave them towards the call's inputs.
class CallGraph {
 public:
  CallGraph(std::uint64_t first_node, const Inputs& inputs) : first_node_(first_node), inputs_(inputs) {}

  bool is_inside(const Node* node) const {
    return node->sequence_nr() != kLeafSequence && node->sequence_nr() >= first_node_;
  }

  // The `turn`th input at this edge, or the last one when there are fewer; -1: none hangs there.
  int input_at(const Node* node, std::uint32_t output, std::size_t turn) const {
    int found = -1;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].first.get() != node || inputs_[i].second != output) continue;
      found = static_cast<int>(i);
      if (turn-- == 0) break;
    }
    return found;
  }

  // Calls use(node, edge number, target node, target output) for every edge to a node where an input hangs.
  template <typename Use>
  void for_each_exit(const Node* start, Use use) {
    if (!is_inside(start) || !seen_.insert(start)) return;
    c10::SmallVector<const Node*, 16> pending{start};
    while (!pending.empty()) {
      const Node* node = pending.pop_back_val();
      const auto& edges = node->next_edges();
      for (std::uint32_t i = 0; i < edges.size(); ++i) {
        const Node* next = edges[i].function.get();
        if (next == nullptr) continue;
        use(node, i, next, edges[i].input_nr);
        if (is_inside(next) && seen_.insert(next)) pending.push_back(next);
      }
    }
  }

 private:
  std::uint64_t first_node_;
  const Inputs& inputs_;
  NodeSet seen_;
};

// Deals the edges that leave a call out to the inputs they lead to. Inputs that are the same tensor share an
// edge: contributions come to them in the order of the edges, and the last takes what is left over.
class Dealer {
 public:
  explicit Dealer(const CallGraph& graph) : graph_(graph) {}

  // -1: no input hangs there.
  int input_at(const Node* node, std::uint32_t output) {
    if (node != dealt_to_) dealt_ = 0;
    const int input = graph_.input_at(node, output, dealt_);
    if (input < 0) return input;
    dealt_to_ = node;
    ++dealt_;
    return input;
  }

 private:
  const CallGraph& graph_;
  std::size_t dealt_ = 0;
  const Node* dealt_to_ = nullptr;
};

// What is to be hooked on one node.
struct WatchedNode {
  Node* node;
  Places arriving;
  Places leaving;
  bool passes_through = false;
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
bool watch_one_node(const std::shared_ptr<BackwardState>& state, const CallGraph& graph, const Inputs& ends,
                    const std::vector<at::Tensor>& inputs, std::string_view forward_name) {
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
  torch_adapter::Inputs ends;  // of outputs that have gradients
  for (const at::Tensor& output : outputs) {
    if (!output.defined() || !output.requires_grad() || output.is_leaf() || has_stale_node(output)) continue;
    ends.emplace_back(output.grad_fn(), static_cast<std::uint32_t>(output.output_nr()));
  }
  if (ends.empty()) return;

  torch_adapter::Inputs& starts = before->edges;
  starts.resize(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    // A leaf has no accumulator, and a stale view no node, before the call that first uses it.
    if (!starts[i].first) starts[i] = edge_of(inputs[i]);
  }
  CallGraph graph(before->first_node, starts);
  if (!module && watch_one_node(state_, graph, ends, inputs, forward_name)) return;

  auto call = std::allocate_shared<CallBackward>(PoolAllocator<CallBackward>());
  call->state = state_;
  call->step = state_->step.load();
  call->name = std::string_view(dump::backward_name(forward_name));
  call->module = state_->recorder.innermost();
  call->is_module = module;
  call->outputs.resize(ends.size());
  call->inputs.resize(inputs.size());
  c10::SmallVector<WatchedNode, 2> watched;
  const auto watch = [&](const Node* node) -> WatchedNode& {
    for (WatchedNode& entry : watched) {
      if (entry.node == node) return entry;
    }
    // Hooks are added to a node that others hold as const.
    watched.push_back(
        {const_cast<Node*>(node), {}, {}, false});  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    return watched.back();
  };

  for (std::size_t i = 0; i < ends.size(); ++i) {
    const Node* node = ends[i].first.get();
    WatchedNode& entry = watch(node);
    entry.arriving.push_back({ends[i].second, true, static_cast<std::uint16_t>(i)});
    call->outputs[i].expected = 1;
    if (graph.is_inside(node)) continue;
    // The output is an input: what arrives is the gradient of both.
    if (const int input = graph.input_at(node, ends[i].second, i); input >= 0) {
      entry.arriving.push_back({ends[i].second, false, static_cast<std::uint16_t>(input)});
      entry.passes_through = true;
      ++call->inputs[static_cast<std::size_t>(input)].expected;
    }
  }
  Dealer dealer(graph);
  for (const auto& end : ends) {
    graph.for_each_exit(end.first.get(),
                        [&](const Node* node, std::uint32_t edge, const Node* next, std::uint32_t number) {
                          const int input = dealer.input_at(next, number);
                          if (input < 0) return;
                          watch(node).leaving.push_back({edge, false, static_cast<std::uint16_t>(input)});
                          ++call->inputs[static_cast<std::size_t>(input)].expected;
                        });
  }
  // A module whose inputs have no gradients at all, an embedding, shows none.
  const auto has_gradient = [](const at::Tensor& input) { return input.defined() && input.requires_grad(); };
  if (module && std::none_of(inputs.begin(), inputs.end(), has_gradient)) call->inputs.clear();
  for (std::size_t i = 0; !module && i < inputs.size(); ++i) call->inputs[i].shown = has_place(inputs[i]);
  call->begin_round();

  for (WatchedNode& entry : watched) {
    if (!entry.arriving.empty() && (module || entry.passes_through)) {
      entry.node->add_pre_hook(std::make_unique<ArrivalHook>(call, std::move(entry.arriving)));
      entry.arriving.clear();
    }
    if (entry.arriving.empty() && entry.leaving.empty()) continue;
    entry.node->add_post_hook(
        std::make_unique<DepartureHook>(call, std::move(entry.arriving), std::move(entry.leaving)));
  }
  const std::lock_guard lock(state_->mutex);
  state_->calls.push_back(call);
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
    const std::lock_guard lock(call->mutex);
    if (!call->started) continue;
    guarded(state_->recorder, call->name, [&] { state_->write(*call); });
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
  state_->parameter_record_names.clear();
  state_->parameter_records.clear();
  state_->calls.clear();
}

}  // namespace msprobe::torch_adapter

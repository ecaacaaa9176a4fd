// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/function_hook.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "msprobe/error.h"
#include "msprobe/torch_dump.h"
#include "torch/gradient_edge.h"
#include "torch/operator_elements.h"
#include "torch/out_of_sight.h"

namespace msprobe::torch_adapter {

// What one OperatorRecorder has in common with its hooks and with torch's callbacks.
struct OperatorState {
  OperatorState(dump::Recorder& recorder_, TensorDescriber& describer_)
      : recorder(recorder_), describer(describer_) {}

  struct Bracket {
    at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;
    int depth = 0;
  };

  dump::Recorder& recorder;
  TensorDescriber& describer;
  std::atomic<std::uint64_t> step{0};  // hooks of another step do nothing
  mutable std::mutex mutex;
  std::unordered_map<std::string, std::int64_t> counts;  // by "mm.forward"
  std::size_t recorded = 0;
  std::map<std::thread::id, Bracket> brackets;

  std::string next_name(const std::string& operator_name, bool backward) {
    const char* direction = backward ? ".backward" : ".forward";
    const std::lock_guard lock(mutex);
    ++recorded;
    const std::int64_t count = counts[operator_name + direction]++;
    return "Aten." + operator_name + "." + std::to_string(count) + direction;
  }
};

namespace {

namespace autograd = torch::autograd;

// torch knows callbacks as plain functions: this is whose bracket is open. Threads of the autograd engine
// take over the callbacks of the thread that called it, but no thread_local of ours.
std::mutex open_mutex;
std::shared_ptr<OperatorState> open_state;  // NOLINT: one per process, under open_mutex

std::shared_ptr<OperatorState> state_of_open_bracket() {
  const std::lock_guard lock(open_mutex);
  return open_state;
}

template <typename Work>
void guarded(OperatorState& state, std::string_view name, Work work) {
  try {
    const OutOfSight out_of_sight;
    work();
  } catch (const std::exception& e) {
    state.recorder.note_fault(name, e.what());
  }
}

// torch.compile and its like call operators to see what they would do.
bool is_traced() {
  using Modes = c10::impl::TorchDispatchModeTLS;
  using Key = c10::impl::TorchDispatchModeKey;
  return Modes::get_mode(Key::FAKE) || Modes::get_mode(Key::PROXY) || Modes::get_mode(Key::FUNCTIONAL);
}

bool only_gets_memory(std::string_view name) {
  return name.starts_with("aten::empty") || name.starts_with("aten::new_empty") ||
         name.starts_with("aten::resize_") || name == "aten::_resize_output_";
}

// One operator between its begin and its end.
struct OpenOperator final : at::ObserverContext {
  std::shared_ptr<OperatorState> state;
  std::string name;
  bool backward = false;
  trace::RecordId record = 0;
  std::vector<c10::IValue> changed;  // arguments that an operator without results writes to
  int exceptions = std::uncaught_exceptions();
};

thread_local trace::ElementWriter element_buffer;

void write_inputs(OpenOperator& of, const c10::FunctionSchema& schema, c10::ArrayRef<c10::IValue> values) {
  dump::Recorder& recorder = of.state->recorder;
  trace::ElementWriter keywords;
  element_buffer.clear();
  keywords.begin_object();
  OperatorElements positional(of.state->describer, element_buffer, of.name, recorder.stores(of.name));
  OperatorElements named(of.state->describer, keywords, of.name, recorder.stores(of.name));
  positional.begin("input");
  named.begin("kwargs");
  const c10::IValue nothing;
  for (std::size_t i = 0; i < std::min(values.size(), schema.arguments().size()); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    const c10::IValue& value = argument.is_out() ? nothing : values[i];
    if (argument.kwarg_only() && !of.backward) {
      named.keyed(argument.name(), value, *argument.real_type());
    } else {
      positional.item(value, *argument.real_type(), i);
    }
  }
  keywords.end();
  recorder.part(of.record, of.backward ? trace::Part::kInput : trace::Part::kInputArgs,
                element_buffer.bytes());
  if (!of.backward) recorder.part(of.record, trace::Part::kInputKwargs, keywords.bytes());
}

void write_outputs(OpenOperator& of, const c10::FunctionSchema& schema,
                   const std::vector<c10::IValue>& results) {
  const std::vector<c10::IValue>& values = schema.returns().empty() ? of.changed : results;
  element_buffer.clear();
  OperatorElements elements(of.state->describer, element_buffer, of.name, of.state->recorder.stores(of.name));
  elements.begin("output");
  for (std::size_t i = 0; i < values.size(); ++i) {
    const c10::Type& type =
        i < schema.returns().size() ? *schema.returns()[i].real_type() : *c10::AnyType::get();
    elements.item(values[i], type, i);
  }
  of.state->recorder.part(of.record, trace::Part::kOutput, element_buffer.bytes());
  of.state->recorder.note_output(of.name, element_buffer.worst());
}

std::unique_ptr<at::ObserverContext> begin_operator(const std::shared_ptr<OperatorState>& state,
                                                    const at::RecordFunction& function, bool backward) {
  const auto schema = function.operator_schema();
  if (!schema || only_gets_memory(schema->name()) || is_traced()) return nullptr;
  const dump::Options& options = state->recorder.options();
  if (backward ? !options.backward : !options.forward) return nullptr;

  constexpr std::string_view kAten = "aten::";
  const std::string& name = schema->name();
  auto open = std::make_unique<OpenOperator>();
  open->state = state;
  open->backward = backward;
  open->name = state->next_name(name.starts_with(kAten) ? name.substr(kAten.size()) : name, backward);
  guarded(*state, open->name, [&] {
    state->recorder.open_module(open->name);
    open->record = state->recorder.record(
        backward ? trace::RecordKind::kApiBackward : trace::RecordKind::kApiForward, open->name);
    if (options.data && options.input) write_inputs(*open, *schema, function.inputs());
    if (!schema->returns().empty()) return;
    for (std::size_t i = 0; i < std::min(function.inputs().size(), schema->arguments().size()); ++i) {
      const c10::AliasInfo* alias = schema->arguments()[i].alias_info();
      if (alias != nullptr && alias->isWrite()) open->changed.push_back(function.inputs()[i]);
    }
  });
  return open;
}

void end_operator(const at::RecordFunction& function, at::ObserverContext* context) {
  if (context == nullptr) return;
  auto& open = static_cast<OpenOperator&>(*context);
  guarded(*open.state, open.name, [&] {
    open.state->recorder.close_module(open.name);
    const dump::Options& options = open.state->recorder.options();
    if (!options.data || !options.output || std::uncaught_exceptions() > open.exceptions) return;
    if (const auto schema = function.operator_schema()) write_outputs(open, *schema, function.outputs());
  });
}

at::RecordFunctionCallback operator_callback(at::RecordFunctionCallback::StartCallback begin,
                                             at::RecordFunctionCallback::EndCallback end) {
  return at::RecordFunctionCallback(begin, end).needsInputs(true).needsOutputs(true);
}

// ---- a bracket of start()

std::unique_ptr<at::ObserverContext> begin_in_bracket(const at::RecordFunction& function) {
  const auto state = state_of_open_bracket();
  if (!state) return nullptr;
  return begin_operator(state, function, autograd::get_current_node() != nullptr);
}

// ---- nodes of one call

// The node that runs on this thread with its operators recorded.
struct RunningNode {
  std::shared_ptr<OperatorState> state;
  std::string name;  // of the backward record it belongs to
  at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;
  int depth = 0;  // it may run a backward of its own
};
thread_local RunningNode running;

// What runs between the node's hooks and the node itself, such as hooks of the user, is no part of it: torch
// tells where the node begins and ends.
std::unique_ptr<at::ObserverContext> begin_in_node(const at::RecordFunction& function) {
  if (function.scope() == at::RecordScope::FUNCTION) {
    return running.depth > 0 ? begin_operator(running.state, function, true) : nullptr;
  }
  if (running.depth++ == 0) running.state->recorder.open_module(running.name);
  return nullptr;
}

void end_in_node(const at::RecordFunction& function, at::ObserverContext* context) {
  if (function.scope() == at::RecordScope::FUNCTION) return end_operator(function, context);
  if (--running.depth > 0) return;
  at::removeCallback(running.handle);
  running.state->recorder.close_module(running.name);
  running.state.reset();
}

// Before a node of the call runs. Should it never run, because of an exception in a hook after this one, the
// engine takes the callback away with all that is set for the time of the node.
struct NodeHook final : autograd::FunctionPreHook {
  NodeHook(std::shared_ptr<OperatorState> of, std::string record)
      : state(std::move(of)), name(std::move(record)), step(state->step.load()) {}

  autograd::variable_list operator()(const autograd::variable_list& gradients) override {
    if (state->step.load() == step && running.depth == 0) {
      running.state = state;
      running.name = name;
      running.handle = at::addThreadLocalCallback(
          operator_callback(&begin_in_node, &end_in_node)
              .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
    }
    return gradients;
  }
  // A graph compiled by torch's compiled autograd runs without this hook.
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs&) const override {}

  std::shared_ptr<OperatorState> state;
  std::string name;
  std::uint64_t step;
};

}  // namespace

OperatorRecorder::OperatorRecorder(dump::Recorder& recorder, TensorDescriber& describer)
    : state_(std::make_shared<OperatorState>(recorder, describer)) {}

OperatorRecorder::~OperatorRecorder() {
  end_step();
  while (true) {
    {
      const std::lock_guard lock(state_->mutex);
      if (!state_->brackets.contains(std::this_thread::get_id())) return;
    }
    stop();
  }
}

void OperatorRecorder::start() {
  const std::scoped_lock lock(open_mutex, state_->mutex);
  if (open_state && open_state != state_) {
    throw InvalidArgument(
        "recording operators: another OperatorRecorder of this process is recording, expected one at a time");
  }
  OperatorState::Bracket& bracket = state_->brackets[std::this_thread::get_id()];
  if (bracket.depth++ > 0) return;
  open_state = state_;
  bracket.handle = at::addThreadLocalCallback(
      operator_callback(&begin_in_bracket, &end_operator).scopes({at::RecordScope::FUNCTION}));
}

void OperatorRecorder::stop() noexcept {
  const std::scoped_lock lock(open_mutex, state_->mutex);
  const auto bracket = state_->brackets.find(std::this_thread::get_id());
  if (bracket == state_->brackets.end() || --bracket->second.depth > 0) return;
  at::removeCallback(bracket->second.handle);
  state_->brackets.erase(bracket);
  if (state_->brackets.empty()) open_state.reset();
}

std::size_t OperatorRecorder::recorded() const {
  const std::lock_guard lock(state_->mutex);
  return state_->recorded;
}

void OperatorRecorder::end_step() {
  ++state_->step;
  const std::lock_guard lock(state_->mutex);
  state_->counts.clear();
  state_->recorded = 0;
}

// ------------------------------------------------------------------------------------------------- one call

struct CallOperators::Call {
  OperatorRecorder& operators;
  std::string wanted;
  bool backward = false;
  bool open = false;
  std::uint64_t first_node = 0;  // nodes of the call have this number or a higher one
  std::unordered_set<const autograd::Node*> before = {};  // nodes that the call's inputs come from

  dump::Recorder& recorder() const { return operators.state_->recorder; }

  bool is_inside(const autograd::Node& node) const {
    return node.sequence_nr() != kLeafSequence && node.sequence_nr() >= first_node && !before.contains(&node);
  }

  void close() noexcept {
    if (!std::exchange(open, false)) return;
    operators.stop();
    recorder().close_module(wanted);
  }

  void hook_nodes(const std::vector<at::Tensor>& outputs) {
    std::unordered_set<const autograd::Node*> seen;
    std::vector<NodePtr> pending;
    const auto meet = [&](const NodePtr& node) {
      if (node && is_inside(*node) && seen.insert(&*node).second) pending.push_back(node);
    };
    for (const at::Tensor& output : outputs) meet(node_of(output));
    while (!pending.empty()) {
      const NodePtr node = std::move(pending.back());
      pending.pop_back();
      node->add_pre_hook(std::make_unique<NodeHook>(operators.state_, wanted));
      for (const autograd::Edge& edge : node->next_edges()) meet(edge.function);
    }
  }
};

bool CallOperators::concerns(std::string_view wanted, std::string_view forward_name) {
  return wanted == forward_name || wanted == dump::backward_name(forward_name);
}

CallOperators::CallOperators(OperatorRecorder& operators, std::string wanted,
                             const std::vector<at::Tensor>& inputs)
    : call_(new Call{operators, std::move(wanted)}) {
  call_->backward = call_->wanted == dump::backward_name(call_->wanted);
  if (!call_->backward) {
    operators.start();
    call_->open = true;
    call_->recorder().open_module(call_->wanted);
    return;
  }
  call_->first_node = at::sequence_number::peek();
  for (const at::Tensor& input : inputs) {
    if (const NodePtr node = node_of(input)) call_->before.insert(&*node);
  }
}

CallOperators::~CallOperators() { call_->close(); }

void CallOperators::finish(const std::vector<at::Tensor>& outputs) {
  call_->close();
  if (call_->backward) call_->hook_nodes(outputs);
}

}  // namespace msprobe::torch_adapter

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <c10/core/impl/PythonDispatcherTLS.h>
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
#include "msprobe/torch_tensors.h"
#include "torch/gradient_edge.h"
#include "torch/operator_values.h"
#include "torch/out_of_sight.h"

namespace msprobe::torch_adapter {

// What one OperatorRecorder has in common with its hooks and with torch's callbacks.
struct OperatorState {
  OperatorState(dump::Session& session_, TensorDescriber& describer_)
      : session(session_), recorder(session.recorder()), describer(describer_) {}

  struct Bracket {
    at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;
    int depth = 0;
  };

  dump::Session& session;
  dump::Recorder& recorder;
  TensorDescriber& describer;
  std::atomic<bool> filters{false};
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

// torch.compile and its like call operators to see what they would do. A mode of torch is not on its stack
// while it handles an operator: what it calls meanwhile belongs to that operator.
bool is_traced() {
  using Modes = c10::impl::TorchDispatchModeTLS;
  using Key = c10::impl::TorchDispatchModeKey;
  return Modes::get_mode(Key::FAKE) || Modes::get_mode(Key::PROXY) || Modes::get_mode(Key::FUNCTIONAL) ||
         c10::impl::PythonDispatcherTLS::get_state() != nullptr;
}

// Nothing is computed of tensors without memory. torch.compile makes some outside of any mode.
bool is_without_memory(const at::RecordFunction& function) {
  for (const c10::IValue& value : function.inputs()) {
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    const at::Tensor& tensor = value.toTensor();
    return !tensor.key_set().has(c10::DispatchKey::Python) && tensor.is_meta();
  }
  return false;
}

thread_local int traced_operators = 0;  // that have not ended

struct TracedOperator final : at::ObserverContext {
  TracedOperator() { ++traced_operators; }
  ~TracedOperator() override { --traced_operators; }
  TracedOperator(const TracedOperator&) = delete;
  TracedOperator& operator=(const TracedOperator&) = delete;
};

bool only_gets_memory(std::string_view name) {
  return name.starts_with("aten::empty") || name.starts_with("aten::new_empty") ||
         name.starts_with("aten::resize_") || name == "aten::_resize_output_";
}

// One operator between its begin and its end.
struct OpenOperator final : at::ObserverContext {
  std::shared_ptr<OperatorState> state;
  dump::Call call;
  bool backward = false;
  std::vector<c10::IValue> changed;  // arguments that an operator without results writes to
  int exceptions = std::uncaught_exceptions();
};

std::unique_ptr<at::ObserverContext> begin_operator(const std::shared_ptr<OperatorState>& state,
                                                    const at::RecordFunction& function, bool backward) {
  const auto schema = function.operator_schema();
  if (!schema || traced_operators > 0 || only_gets_memory(schema->name())) return nullptr;
  if (is_traced() || is_without_memory(function)) return std::make_unique<TracedOperator>();
  const auto kind = backward ? trace::RecordKind::kApiBackward : trace::RecordKind::kApiForward;
  if (!state->session.kept(kind).record) return nullptr;

  constexpr std::string_view kAten = "aten::";
  const std::string& name = schema->name();
  auto open = std::make_unique<OpenOperator>();
  open->state = state;
  open->backward = backward;
  open->call.name = state->next_name(name.starts_with(kAten) ? name.substr(kAten.size()) : name, backward);
  if (state->filters && !state->recorder.keeps_api(open->call.name)) return nullptr;
  guarded(*state, open->call.name, [&] {
    OperatorValues values(state->describer, *schema, backward, function.inputs());
    state->session.begin_operator(open->call, backward, values);
    if (!schema->returns().empty()) return;
    for (std::size_t i = 0; i < std::min(function.inputs().size(), schema->arguments().size()); ++i) {
      const c10::AliasInfo* alias = schema->arguments()[i].alias_info();
      if (alias != nullptr && alias->isWrite()) open->changed.push_back(function.inputs()[i]);
    }
  });
  return open;
}

void end_operator(const at::RecordFunction& function, at::ObserverContext* context) {
  auto* const found = dynamic_cast<OpenOperator*>(context);
  if (found == nullptr) return;
  OpenOperator& open = *found;
  guarded(*open.state, open.call.name, [&] {
    dump::Session& session = open.state->session;
    const auto schema = function.operator_schema();
    if (!schema || std::uncaught_exceptions() > open.exceptions) {
      session.end_operator(open.call, open.backward, nullptr);
      return;
    }
    const auto& results = schema->returns().empty() ? open.changed : function.outputs();
    OperatorValues values(open.state->describer, *schema, open.backward, results);
    session.end_operator(open.call, open.backward, &values);
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

OperatorRecorder::OperatorRecorder(dump::Session& session, TensorDescriber& describer)
    : state_(std::make_shared<OperatorState>(session, describer)) {}

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

void OperatorRecorder::use_filters() noexcept { state_->filters = true; }

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

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <torch/nn/module.h>

#include <mutex>
#include <unordered_map>

#include "msprobe/torch_debugger.h"
#include "msprobe/torch_tensors.h"
#include "torch/out_of_sight.h"

namespace msprobe::torch_adapter {
namespace {

// "torch::nn::LinearImpl" -> "Linear", as the class is called in Python.
std::string class_name(const torch::nn::Module& module) {
  std::string name = module.name();
  name = name.substr(0, name.find('<'));
  if (const std::size_t scope = name.rfind("::"); scope != std::string::npos) name.erase(0, scope + 2);
  constexpr std::string_view kImplementation = "Impl";
  if (name.size() > kImplementation.size() && name.ends_with(kImplementation)) {
    name.resize(name.size() - kImplementation.size());
  }
  return name;
}

}  // namespace

struct ProgramDump::State {
  explicit State(dump::Options options) : session(of_torch(std::move(options))) {
    session.set_collecting(true);
  }

  static dump::Options of_torch(dump::Options options) {
    options.framework = framework();
    return options;
  }

  dump::Session session;
  TensorDescriber describer{session};
  BackwardWatch backward{session, describer};
  OperatorRecorder operators{session, describer};
  std::mutex mutex;
  std::unordered_map<std::string, std::int64_t> counts;  // of calls in this step, by "Module.{path}.{Class}"

  std::string next_call(const std::string& module) {
    const std::lock_guard lock(mutex);
    return module + ".forward." + std::to_string(counts[module]++);
  }

  // A fault of ours never reaches the training.
  template <typename Work>
  void attempt(const std::string& record, Work work) {
    try {
      const OutOfSight out_of_sight;
      const TensorDescriber::Together together(describer);
      work();
    } catch (const std::exception& e) {
      session.recorder().note_fault(record, e.what());
    }
  }
};

ProgramDump::ProgramDump(dump::Options options) : state_(std::make_shared<State>(std::move(options))) {}

ProgramDump::~ProgramDump() { close(); }

void ProgramDump::open(const std::filesystem::path& directory) { state_->session.recorder().open(directory); }

void ProgramDump::close() {
  state_->backward.flush();
  state_->describer.finish();
  state_->describer.end_step();
  state_->backward.end_step();
  state_->operators.end_step();
  state_->session.end_step();
  state_->session.recorder().end();
  const std::lock_guard lock(state_->mutex);
  state_->counts.clear();
}

void ProgramDump::save(const at::Tensor& tensor, std::string_view name, bool with_gradient) {
  if (!state_->session.recorder().is_open()) return;
  const dump::Session::SavedNames names = state_->session.number_saved(std::string(name));
  state_->attempt(names.value, [&] {
    state_->session.write_saved(names.value,
                                [&](dump::ValueWriter& to) { state_->describer.describe(to, tensor); });
  });
  if (!with_gradient) return;
  const std::string& record = names.gradients;
  state_->attempt(record, [&] {
    const trace::SlotId slot = state_->session.recorder().new_slot();
    state_->session.write_saved(record, [&](dump::ValueWriter& to) { to.out().slot(slot); });
    if (!tensor.requires_grad()) return;
    tensor.register_hook([weak = std::weak_ptr(state_), slot, record](const at::Tensor& gradient) {
      const auto state = weak.lock();
      if (!state) return;
      state->attempt(record, [&] { state->describer.fill(slot, gradient, record, {}); });
    });
  });
}

dump::Session& ProgramDump::session() noexcept { return state_->session; }

dump::Recorder& ProgramDump::recorder() noexcept { return state_->session.recorder(); }

OperatorRecorder& ProgramDump::operators() noexcept { return state_->operators; }

struct ModuleScope::Call final : dump::CallValues {
  Call(ProgramDump::State& of, std::string forward_name, std::vector<at::Tensor> given)
      : dump(of), call{.name = std::move(forward_name)}, inputs(std::move(given)) {}

  template <typename Work>
  void attempt(Work work) {
    dump.attempt(call.name, std::move(work));
  }

  void begin() {
    dump.session.begin_module(call);
    if (call.watches_backward) before = dump.backward.before_call(inputs);
  }

  void end() {
    dump.session.end_module(call, this);
    if (!call.watches_backward) return;
    dump.backward.watch_parameters(call, named_parameters);
    dump.backward.after_call(before, inputs, outputs, call.name, true);
  }

  void arguments(dump::ValueWriter& to) override { put(to, inputs); }
  void results(dump::ValueWriter& to) override { put(to, outputs); }
  void parameters(dump::ValueWriter& to) override {
    for (const auto& [name, parameter] : named_parameters) {
      to.member(name, [&, &value = parameter] { dump.describer.describe(to, value); });
    }
  }
  void put(dump::ValueWriter& to, const std::vector<at::Tensor>& tensors) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      to.item(i, [&] { dump.describer.describe(to, tensors[i]); });
    }
  }

  ProgramDump::State& dump;
  dump::Call call;
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> outputs;
  std::vector<std::pair<std::string, at::Tensor>> named_parameters;
  std::shared_ptr<BackwardWatch::Inputs> before;
};

ModuleScope::ModuleScope(ProgramDump& dump, std::string_view path, const torch::nn::Module& module,
                         std::vector<at::Tensor> inputs) {
  begin(dump, path, module, std::move(inputs));
}

ModuleScope::ModuleScope(PrecisionDebugger& debugger, const torch::nn::Module& module,
                         std::vector<at::Tensor> inputs) {
  const PrecisionDebugger::NamedCall call = debugger.call_of(module);
  if (call.dump != nullptr) begin(*call.dump, call.path, module, std::move(inputs));
}

void ModuleScope::begin(ProgramDump& dump, std::string_view path, const torch::nn::Module& module,
                        std::vector<at::Tensor> inputs) {
  if (!dump.recorder().is_open()) return;
  const std::string name = "Module." + std::string(path) + "." + class_name(module);
  call_ = std::make_unique<Call>(*dump.state_, dump.state_->next_call(name), std::move(inputs));
  call_->attempt([&] {
    for (const auto& parameter : module.named_parameters(/*recurse=*/false)) {
      call_->named_parameters.emplace_back(parameter.key(), parameter.value());
    }
    call_->begin();
  });
}

ModuleScope::~ModuleScope() {
  if (call_) call_->attempt([&] { call_->dump.session.end_module(call_->call, nullptr); });
}

at::Tensor ModuleScope::output(at::Tensor result) {
  output(std::vector<at::Tensor>{result});
  return result;
}

void ModuleScope::output(const std::vector<at::Tensor>& results) {
  const std::unique_ptr<Call> call = std::move(call_);
  if (!call) return;
  call->outputs = results;
  call->attempt([&] { call->end(); });
}

}  // namespace msprobe::torch_adapter

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <torch/nn/module.h>

#include <mutex>
#include <unordered_map>

#include "msprobe/torch_dump.h"
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
  explicit State(dump::Options options) : recorder(std::move(options)) {}

  dump::Recorder recorder;
  TensorDescriber describer{recorder};
  BackwardWatch backward{recorder, describer};
  OperatorRecorder operators{recorder, describer};
  std::mutex mutex;
  std::unordered_map<std::string, std::int64_t> counts;  // of calls in this step, by "Module.{path}.{Class}"

  std::string next_call(const std::string& module) {
    const std::lock_guard lock(mutex);
    return module + ".forward." + std::to_string(counts[module]++);
  }
};

ProgramDump::ProgramDump(dump::Options options) : state_(std::make_unique<State>(std::move(options))) {}

ProgramDump::~ProgramDump() { close(); }

void ProgramDump::open(const std::filesystem::path& directory) { state_->recorder.open(directory); }

void ProgramDump::close() {
  state_->backward.flush();
  state_->describer.fetch();
  state_->backward.end_step();
  state_->operators.end_step();
  state_->recorder.end();
  const std::lock_guard lock(state_->mutex);
  state_->counts.clear();
}

dump::Recorder& ProgramDump::recorder() noexcept { return state_->recorder; }

OperatorRecorder& ProgramDump::operators() noexcept { return state_->operators; }

struct ModuleScope::Call {
  ProgramDump::State& dump;
  std::string module;  // "Module.{path}.{Class}"
  std::string name;    // record name of the forward
  std::vector<at::Tensor> inputs;
  std::vector<std::pair<std::string, at::Tensor>> parameters;
  std::shared_ptr<BackwardWatch::Inputs> before;

  // A fault of ours never reaches the training.
  template <typename Work>
  void attempt(Work work) {
    try {
      const OutOfSight out_of_sight;
      work();
    } catch (const std::exception& e) {
      dump.recorder.note_fault(name, e.what());
    }
  }

  std::string elements(std::string_view category, const std::vector<at::Tensor>& tensors) {
    trace::ElementWriter out;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      dump.describer.describe(out, tensors[i], name, std::string(category) + "." + std::to_string(i));
    }
    if (category == "output") dump.recorder.note_output(name, out.worst());
    return std::string(out.bytes());
  }

  std::string parameter_elements() {
    trace::ElementWriter out;
    out.begin_object();
    for (const auto& [parameter_name, parameter] : parameters) {
      out.key(parameter_name);
      dump.describer.describe(out, parameter, name, "parameters." + parameter_name);
    }
    out.end();
    return std::string(out.bytes());
  }

  void write_forward(const std::vector<at::Tensor>& results) {
    const dump::Options& options = dump.recorder.options();
    if (!options.forward) return;
    const trace::RecordId record = dump.recorder.record(trace::RecordKind::kModuleForward, name);
    if (!options.data) return;
    if (options.input) {
      trace::ElementWriter no_keywords;
      no_keywords.begin_object();
      no_keywords.end();
      dump.recorder.part(record, trace::Part::kInputArgs, elements("input", inputs));
      dump.recorder.part(record, trace::Part::kInputKwargs, no_keywords.bytes());
    }
    if (options.output) dump.recorder.part(record, trace::Part::kOutput, elements("output", results));
    dump.recorder.part(record, trace::Part::kParameters, parameter_elements());
  }

  void end(const std::vector<at::Tensor>& results) {
    if (!dump.recorder.close_module(name)) return;
    write_forward(results);
    if (!dump.recorder.options().backward) return;
    if (!parameters.empty()) dump.backward.watch_parameters(module + ".parameters_grad", parameters);
    dump.backward.after_call(before, inputs, results, name, true);
  }
};

ModuleScope::ModuleScope(ProgramDump& dump, std::string_view path, const torch::nn::Module& module,
                         std::vector<at::Tensor> inputs) {
  if (!dump.state_->recorder.is_open()) return;
  const std::string name = "Module." + std::string(path) + "." + class_name(module);
  call_.reset(new Call{*dump.state_, name, dump.state_->next_call(name), std::move(inputs), {}, nullptr});
  call_->attempt([&] {
    call_->dump.recorder.open_module(call_->name);
    for (const auto& parameter : module.named_parameters(/*recurse=*/false)) {
      call_->parameters.emplace_back(parameter.key(), parameter.value());
    }
    call_->before = call_->dump.backward.before_call(call_->inputs);
  });
}

ModuleScope::~ModuleScope() {
  if (call_) call_->attempt([&] { call_->dump.recorder.close_module(call_->name); });
}

at::Tensor ModuleScope::output(at::Tensor result) {
  output(std::vector<at::Tensor>{result});
  return result;
}

void ModuleScope::output(const std::vector<at::Tensor>& results) {
  const std::unique_ptr<Call> call = std::move(call_);
  if (call) call->attempt([&] { call->end(results); });
}

}  // namespace msprobe::torch_adapter

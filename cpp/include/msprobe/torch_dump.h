// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The data dump for torch tensors: what a session of msprobe/dump_session.h needs to know of them, and their
/// gradients. The same code serves Python (the module _torch) and C++ programs.

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/dump.h"
#include "msprobe/dump_session.h"
#include "msprobe/export.h"
#include "msprobe/trace.h"

namespace torch::nn {
class Module;
}

namespace msprobe::torch_adapter {

/// How torch's tensors, types and calls are written: Options::framework.
MSPROBE_API trace::Framework framework();

/// Puts tensors into element trees: statistics of CPU tensors are computed at once, with the threads torch
/// uses. Those of a device are computed there by at:: operators, and stay there until fetch(): the element
/// has a slot in their place, and the host waits for the device once for all. Only checksums, files and the
/// search for overflows need an answer at once. A tensor without readable memory (meta, sparse, fake,
/// nested, a subclass) gets its dtype and shape, and null statistics. Never throws because of a tensor.
/// Thread-safe.
class MSPROBE_API TensorDescriber {
 public:
  /// What a tensor without memory of its own stands for in this process.
  struct Local {
    at::Tensor tensor;
    std::string placement;  // trace::TensorElement::placement
  };
  /// Looks into a tensor whose operators run in Python: the local shard of a DTensor, or nothing for other
  /// classes. Called on any thread, without the GIL or with it.
  using FindLocal = std::function<std::optional<Local>(const at::Tensor&)>;

  explicit TensorDescriber(dump::Session& session, FindLocal find_local = {});
  ~TensorDescriber();
  TensorDescriber(const TensorDescriber&) = delete;
  TensorDescriber& operator=(const TensorDescriber&) = delete;

  /// Writes `tensor` where the writer stands, and queues a copy of it when it becomes a file. An undefined
  /// tensor is null. `placement`: that of a tensor that does not tell it itself.
  void describe(dump::ValueWriter& to, const at::Tensor& tensor, std::string_view placement = {});

  /// The tensor whose memory describe() reads, with where it lies: `tensor` itself, or what FindLocal finds.
  Local local_of(const at::Tensor& tensor) const;

  /// Supplies the slot with `tensor` as describe() has it at that position of that record.
  void fill(trace::SlotId slot, const at::Tensor& tensor, std::string_view record, std::string_view position);

  /// Fills the slots of the tensors whose statistics are still on a device: one transfer, and one wait, for
  /// each stream that they were computed on. Call it before Recorder::flush(); it happens by itself when
  /// 8192 tensors wait.
  void fetch();

  /// Tensors of the CPU take the way of those of a device, too: for tests.
  void treat_all_as_on_device();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct BackwardState;

/// Watches the backward of recorded calls, without a node or a view of its own: hooks on the nodes that
/// autograd has anyway see what arrives at a call's outputs, and the contributions that leave it towards its
/// inputs. What several nodes contribute to one input is added up as autograd does. Results of training do
/// not change.
///
/// Thread-safe. A watch may be destroyed before the graph it put hooks on.
class MSPROBE_API BackwardWatch {
 public:
  BackwardWatch(dump::Session& session, TensorDescriber& describer);
  ~BackwardWatch();
  BackwardWatch(const BackwardWatch&) = delete;
  BackwardWatch& operator=(const BackwardWatch&) = delete;

  /// Where the inputs of a call hang in the graph; taken before the call, because a call that works in place
  /// moves them. Opaque.
  struct Inputs;
  std::shared_ptr<Inputs> before_call(const std::vector<at::Tensor>& inputs);

  /// After the call: hooks its nodes, if it has a backward. `inputs`: the tensors given to before_call(), in
  /// the order of the record, followed by any that were not known then. `forward_name`: the call's record
  /// name. `module`: the record is that of a module, made as soon as the gradients of the inputs are
  /// complete; otherwise that of an API.
  void after_call(const std::shared_ptr<Inputs>& before, const std::vector<at::Tensor>& inputs,
                  const std::vector<at::Tensor>& outputs, std::string_view forward_name, bool module);

  /// Makes the record of the gradients of a module's parameters, filled with each as it reaches its parameter
  /// in a backward. Once per module and step; frozen parameters are left out.
  void watch_parameters(const dump::Call& module,
                        const std::vector<std::pair<std::string, at::Tensor>>& parameters);

  /// Records calls whose gradients came in part. Call it before Recorder::flush().
  void flush();

  /// Forgets everything of the step: hooks on parameters are taken off, those on nodes of old graphs do
  /// nothing.
  void end_step();

 private:
  std::shared_ptr<BackwardState> state_;
};

struct OperatorState;

/// Records operators, ATen's and custom ones, whoever calls them: Python, C++ or autograd. Nothing of torch
/// is replaced: torch tells of each operator (at::RecordFunction) while a bracket is open, and of none
/// afterwards.
///
/// The record of an operator is "Aten.{operator}.{n}.forward", or ".backward" when a backward runs it; n
/// counts from 0 in a step, for each operator and direction. A custom operator is called
/// "{namespace}::{operator}".
///  * Inputs are described before the operator runs: what it changes in place shows its old values there.
///  * Keyword-only arguments are `input_kwargs`; a backward record has all arguments as its `input`. What is
///    there to be overwritten (`out=`) is null.
///  * An operator without results has the arguments that it changed as its output; one that throws has none.
///  * An operator that consists of others is recorded like those, and is their parent in the hierarchy.
///  * Operators that only get memory (empty, resize_, ...) compute nothing and are left out, and so is what
///    torch.compile, torch.export or a fake mode merely traces.
/// Lists and scopes do not apply, but after use_filters().
///
/// A fault of the recorder never reaches the training. Brackets may be open on several threads; of two
/// OperatorRecorders in a process only one may have open brackets. Both session and describer must outlive
/// this object, and the backward of a bracketed call must have ended before they are destroyed.
class MSPROBE_API OperatorRecorder {
 public:
  OperatorRecorder(dump::Session& session, TensorDescriber& describer);
  /// Closes the bracket of the calling thread.
  ~OperatorRecorder();
  OperatorRecorder(const OperatorRecorder&) = delete;
  OperatorRecorder& operator=(const OperatorRecorder&) = delete;

  /// Opens a bracket: the operators of the calling thread are recorded, and those of every backward that it
  /// starts. Brackets nest. Throws InvalidArgument when another OperatorRecorder has an open bracket.
  void start();
  /// Closes the innermost bracket of the calling thread, if there is one.
  void stop() noexcept;

  /// From now on only those operators are recorded whose names the recorder keeps.
  void use_filters() noexcept;

  /// Operators recorded in this step.
  std::size_t recorded() const;
  /// Counts from 0 again. Brackets around the backward of calls before do nothing any more.
  void end_step();

 private:
  friend class CallOperators;
  std::shared_ptr<OperatorState> state_;
};

/// Records the operators of one call, during its forward or during its backward: level L2. Lives around the
/// call, on one thread. A backward is bracketed by hooks on the nodes that the call made, so nothing is
/// computed a second time, and results do not change.
class MSPROBE_API CallOperators {
 public:
  /// Before the call: opens the bracket when `wanted`, the name of its record, is that of a forward.
  /// Operators stand below `wanted` in the hierarchy. `inputs`: tensors among the arguments; where they come
  /// from is no part of the call.
  CallOperators(OperatorRecorder& operators, std::string wanted, const std::vector<at::Tensor>& inputs);
  /// Closes the bracket, also after an exception of the call.
  ~CallOperators();
  CallOperators(const CallOperators&) = delete;
  CallOperators& operator=(const CallOperators&) = delete;

  /// After the call: closes the bracket of a forward; when `wanted` is a backward, hooks the nodes between
  /// `outputs` and the inputs.
  void finish(const std::vector<at::Tensor>& outputs);

 private:
  struct Call;
  std::unique_ptr<Call> call_;
};

/// The data dump of a C++ program, step by step: modules, operators and gradients of parameters, in the files
/// and under the names that a dump of the same training in Python has.
///
/// open() and close() are called by one thread, while no module call is under way.
class MSPROBE_API ProgramDump {
 public:
  explicit ProgramDump(dump::Options options = {});
  ~ProgramDump();
  ProgramDump(const ProgramDump&) = delete;
  ProgramDump& operator=(const ProgramDump&) = delete;

  /// Begins a step. `directory` by convention: "{dump_path}/step{N}/rank{R}". Throws IoError.
  void open(const std::filesystem::path& directory);
  /// Ends the step: its files are complete when this returns, or a warning has been logged.
  void close();

  /// Records a value as "{name}.{n}.debug", counted in each step, and with `with_gradient` its gradient as
  /// "{name}_grad.{n}.debug". Does nothing while no step is open.
  void save(const at::Tensor& tensor, std::string_view name, bool with_gradient);

  dump::Session& session() noexcept;
  dump::Recorder& recorder() noexcept;
  OperatorRecorder& operators() noexcept;

 private:
  friend class ModuleScope;
  struct State;
  std::shared_ptr<State> state_;
};

class PrecisionDebugger;

/// Records one forward call of a module: torch::nn::Module has no hooks that would.
///
///     torch::Tensor forward(torch::Tensor x) {
///       ModuleScope scope(dump, "layers.0.up", *up, {x});
///       return scope.output(up(x));
///     }
///
/// makes "Module.layers.0.up.Linear.forward.0" with arguments, result and parameters, the backward record of
/// the same call and, once a step, "Module.layers.0.up.Linear.parameters_grad". The call is over with
/// output(), or with the scope when an exception leaves it; then it has no record. Does nothing while no step
/// is open.
class MSPROBE_API ModuleScope {
 public:
  /// `path`: the module's name in the model, as torch::nn::Module::named_modules() has it.
  ModuleScope(ProgramDump& dump, std::string_view path, const torch::nn::Module& module,
              std::vector<at::Tensor> inputs);
  /// The module is named as PrecisionDebugger::start() has found it. Does nothing for a module that is not
  /// below the model of start(), at levels that record no modules, and outside of start() and stop().
  ModuleScope(PrecisionDebugger& debugger, const torch::nn::Module& module, std::vector<at::Tensor> inputs);
  ~ModuleScope();
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

  /// Ends the call with one result, which is returned as it is.
  at::Tensor output(at::Tensor result);
  /// Ends the call with several results.
  void output(const std::vector<at::Tensor>& results);

 private:
  struct Call;
  void begin(ProgramDump& dump, std::string_view path, const torch::nn::Module& module,
             std::vector<at::Tensor> inputs);
  std::unique_ptr<Call> call_;
};

/// For each tensor its entry of diagnosis.json (docs/formats/diagnosis.md), a JSON object: dtype, shape,
/// CRC-32 and statistics, behind `requires_grad` where that is wanted. Empty: a tensor without strided memory
/// of its own, or one that cannot be measured, which summarize() says why. Tensors of a device are fetched
/// together, with one synchronisation. Reads memory only. Needs no GIL.
MSPROBE_API std::vector<std::string> state_entries(const std::vector<at::Tensor>& tensors,
                                                   bool with_requires_grad = false);

}  // namespace msprobe::torch_adapter

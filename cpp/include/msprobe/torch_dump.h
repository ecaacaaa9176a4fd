// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The data dump of a libtorch program: modules, operators and gradients, in the files that Python writes.

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/dump.h"
#include "msprobe/export.h"
#include "msprobe/trace.h"

namespace torch::nn {
class Module;
}

namespace msprobe::torch_adapter {

/// How torch's tensors, types and calls are written: Options::framework.
MSPROBE_API trace::Framework framework();

struct OperatorState;
class TensorDescriber;

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
///    torch.compile, torch.export or a fake mode merely traces, or is done to tensors on the meta device.
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

}  // namespace msprobe::torch_adapter

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// PrecisionDebugger for C++ programs: the same configuration file and the same files on disk as in Python.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "msprobe/config.h"
#include "msprobe/dump.h"
#include "msprobe/export.h"
#include "msprobe/torch.h"
#include "msprobe/torch_dump.h"

namespace msprobe::torch_adapter {

/// Watches a training as a configuration says.
///
///     PrecisionDebugger debugger("config.json");
///     debugger.monitor(*model);  // task grad_probe
///     for (...) {
///       debugger.start(*model);  // the other tasks
///       ...                      // forward, backward, optimizer.step()
///       debugger.stop();
///       debugger.step();
///     }
///
/// What differs from Python:
///  * libtorch has no hooks for the forward of a module: a call that levels L0 and mix are to record stands
///  in a
///    ModuleScope. Without scopes there are no records of modules.
///  * The functions of levels L1 and mix are ATen's operators, "Aten.addmm.0.forward". There are no call
///  stacks.
///  * Task grad_probe counts its steps by step(), which reads the gradients: call it before they are set to
///  zero.
///  * Level L2, `enable_dataloader`, `async_dump`, and task overflow_check at another level than L0 are
///    UnsupportedError. `diagnosis`, `parameters` and `api_set` have no effect, which is said in the log.
///
/// Not thread-safe: the methods are called by the thread that trains. After construction nothing throws
/// because of the record: the first problem of a step is logged, and the training goes on.
class MSPROBE_API PrecisionDebugger {
 public:
  /// `arguments` win over the file; an empty path: there is no file. `rank`: of this process, for the name of
  /// its folder; without it the folder is "rank", and a configuration with ranks records nothing. A relative
  /// `dump_path` is below the working directory of now. Throws InvalidArgument and UnsupportedError as
  /// config::load().
  explicit PrecisionDebugger(const std::filesystem::path& config_path,
                             const config::Arguments& arguments = {}, std::optional<int> rank = std::nullopt);
  /// Ends the step. Everything is on disk when it returns.
  ~PrecisionDebugger();
  PrecisionDebugger(const PrecisionDebugger&) = delete;
  PrecisionDebugger& operator=(const PrecisionDebugger&) = delete;

  /// Task grad_probe: the model whose gradients are recorded, from the next step() on. It must be complete.
  /// Another model takes the place of the one before, and its steps count from 0. Throws IoError.
  void monitor(const torch::nn::Module& model);

  /// Opens the collection of the current step, when the configuration wants it. `model`: its modules get the
  /// names that Python gives them; those of the first call hold.
  void start(const torch::nn::Module& model);
  /// Without a model: levels L1 and debug.
  void start();
  /// Closes the collection; start() may follow in the same step.
  void stop();
  /// Ends a step: its files are complete when this returns. Names count from 0 again, in the next folder.
  void step();

  /// Level debug: keeps a tensor, and with `with_gradient` the gradient that it gets. Other levels and tasks:
  /// nothing.
  void save(const at::Tensor& tensor, std::string_view name, bool with_gradient = true);

  /// Gives the current step its number. Throws InvalidArgument below 0.
  void set_init_step(std::int64_t step);

  const config::Config& configuration() const noexcept;

 private:
  friend class ModuleScope;
  struct NamedCall {
    ProgramDump* dump = nullptr;  // null: it is not recorded
    std::string_view path = {};
  };
  NamedCall call_of(const torch::nn::Module& module);

  struct State;
  std::unique_ptr<State> state_;
};

/// What the gradient probe records, from the configuration of task grad_probe.
MSPROBE_API GradProbeSettings grad_probe_settings(const config::Config& config, int rank);

}  // namespace msprobe::torch_adapter

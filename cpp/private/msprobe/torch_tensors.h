// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What a session of msprobe/dump.h needs to know of torch tensors and their gradients. The same code
/// serves Python (the module _torch) and C++ programs.

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/dump.h"
#include "msprobe/export.h"
#include "msprobe/torch_dump.h"
#include "msprobe/trace.h"

namespace msprobe::torch_adapter {

/// How tensors are measured, for tests.
enum class DeviceWay : std::uint8_t {
  kNone,    // those of the CPU in memory, those of a device by its kernel, or by operators where it has none
  kKernel,  // those of the CPU by the kernel, too: the processor stands in for a device
  kOperators,  // all by torch's own operators
};

/// In this process and from now on.
MSPROBE_API void set_device_way(DeviceWay way) noexcept;

/// Whether a tensor is measured where it lies, on a device.
MSPROBE_API bool is_elsewhere(const at::Tensor& tensor);

/// In which way tensors of a device are measured, and why, for people: "kernel: NVIDIA H200", "operators of
/// torch: none of these libraries can be loaded: ...". The first call for a device prepares its kernel, some
/// seconds where it is not in the cache.
MSPROBE_API std::string way_of(c10::Device device);

/// What the kernel of a device has done so far, for tests: launches, tensors measured by them, and how often
/// somebody waited for it. Zeros where there is no kernel.
MSPROBE_API std::array<std::size_t, 3> kernel_work(c10::Device device);

/// Puts tensors into element trees: statistics of CPU tensors are computed at once, with the threads torch
/// uses. Those of a device are measured there, and their element has a slot in their place: finish() lets the
/// recorder fill it, behind the step. Only checksums, files and the search for overflows need an answer at
/// once. What a call returned and another one takes, unchanged, is measured once (KnownTensors). A tensor
/// without readable memory (meta, sparse, fake, nested, a subclass) gets its dtype and shape, and null
/// statistics. Never throws because of a tensor. Thread-safe.
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

  /// Tensors of a device that this thread describes while it lives are measured by one launch at its end:
  /// made around the inputs of a call, and around its results. Without it each is a launch of its own.
  class MSPROBE_API Together {
   public:
    explicit Together(TensorDescriber& describer);
    ~Together();
    Together(const Together&) = delete;
    Together& operator=(const Together&) = delete;

   private:
    friend class TensorDescriber;
    struct State;
    TensorDescriber& describer_;
    Together* outer_;
    std::unique_ptr<State> state_;
  };

  /// Writes `tensor` where the writer stands, and queues a copy of it when it becomes a file. An undefined
  /// tensor is null. `placement`: that of a tensor that does not tell it itself.
  void describe(dump::ValueWriter& to, const at::Tensor& tensor, std::string_view placement = {});

  /// The same without statistics, and without a file.
  void describe_unmeasured(dump::ValueWriter& to, const at::Tensor& tensor);

  /// The tensor whose memory describe() reads, with where it lies: `tensor` itself, or what FindLocal finds.
  Local local_of(const at::Tensor& tensor) const;

  /// Supplies the slot with `tensor` as describe() has it at that position of that record.
  void fill(trace::SlotId slot, const at::Tensor& tensor, std::string_view record, std::string_view position);

  /// The worst element, as describe() would find it.
  trace::Badness worst_of(const at::Tensor& tensor);

  /// Brings what was measured on devices on its way to the host, by one copy for each stream, and lets the
  /// recorder fill the slots when it makes the files of the step. Waits for nothing, but for what operators
  /// of torch measure. Call it before Recorder::begin_flush() and begin_close().
  void finish();

  /// Forgets which tensors are known.
  void end_step();

  /// From now on every tensor is read, known or not, or no longer: for processes that work together, as
  /// collectives change memory without telling torch.
  void read_all(bool all);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Whether what a call returned can still lead to something. Keeps nothing alive.
class MSPROBE_API ResultsWatch {
 public:
  explicit ResultsWatch(const std::vector<at::Tensor>& results);
  ~ResultsWatch();
  ResultsWatch(const ResultsWatch&) = delete;
  ResultsWatch& operator=(const ResultsWatch&) = delete;

  /// Whether one of them is there. A result with a graph is as long as its node is, whatever became of the
  /// tensor: a loss keeps it. True without results.
  bool is_alive() const;

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

/// For each tensor its entry of diagnosis.json (docs/formats/diagnosis.md), a JSON object: dtype, shape,
/// CRC-32 and statistics, behind `requires_grad` where that is wanted. Empty: a tensor without strided memory
/// of its own, or one that cannot be measured, which summarize() says why. Tensors of a device are fetched
/// together, with one synchronisation. Reads memory only. Needs no GIL.
MSPROBE_API std::vector<std::string> state_entries(const std::vector<at::Tensor>& tensors,
                                                   bool with_requires_grad = false);

}  // namespace msprobe::torch_adapter

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/autograd/function_hook.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dump/object_pool.h"
#include "msprobe/torch_dump.h"
#include "msprobe/torch_tensors.h"
#include "torch/gradient_edge.h"

/// What arrives of a backward, and the records made of it. Called from the engine's threads.
namespace msprobe::torch_adapter {

using dump::PoolAllocator;
using dump::Pooled;
using dump::PooledText;

struct BackwardState;

/// Where gradients of a call stand in its backward record, for the names of files.
constexpr std::string_view category_of(bool of_output) { return of_output ? "input" : "output"; }

/// One gradient of a call. It is described as soon as it is complete and then let go: a gradient that someone
/// holds would be copied by autograd where it could be taken.
struct Gradient {
  PooledText element;  // described; empty: did not come
  at::Tensor sum;      // of several contributions, a copy of ours
  at::Tensor value;    // task overflow_check with files: whether it is one is known when all are there
  std::unique_ptr<std::string> placement;  // of the sum, where the contributions are DTensors
  std::uint16_t expected = 0;              // contributions until it is complete
  std::uint16_t arrived = 0;
  bool shown = true;  // integers never have one, and no place in the record of an API
  trace::Badness worst = trace::Badness::kGood;
  bool mixed = false;  // contributions lie in different ways: their sum would take a collective
};
using Gradients = c10::SmallVector<Gradient, 2>;

/// The backward of one call: what arrived so far.
struct CallBackward : std::enable_shared_from_this<CallBackward> {
  CallBackward() = default;
  /// Writes what arrived where something never came, because an output was not used: the graph is gone.
  ~CallBackward();
  CallBackward(const CallBackward&) = delete;
  CallBackward& operator=(const CallBackward&) = delete;

  Gradients& side(bool of_output) { return of_output ? outputs : inputs; }
  /// Nothing has arrived; once for each backward through a graph that is kept.
  void begin_round();
  dump::Backward backward() const { return {name, is_module, module.get()}; }
  trace::RecordKind kind() const {
    return is_module ? trace::RecordKind::kModuleBackward : trace::RecordKind::kApiBackward;
  }

  std::shared_ptr<BackwardState> state;
  std::uint64_t step = 0;  // hooks of another step do nothing
  PooledText name;
  std::shared_ptr<const dump::Frame> module;
  bool is_module = false;
  bool started = false;
  int pass = -1;  // the last that came here, as the engine numbers them
  bool kept = false;
  dump::Files files = dump::Files::kNone;
  Gradients outputs;  // gradients of the call's outputs
  Gradients inputs;   // gradients of the call's inputs
  int missing = 0;    // contributions until all are complete
  std::mutex mutex;
};

/// What all that is watched in the backward shares.
struct BackwardState {
  BackwardState(dump::Session& session_, TensorDescriber& describer_)
      : session(session_), recorder(session.recorder()), describer(describer_) {}

  /// A contribution to a gradient arrived; the last one writes the call's record. `call.mutex` is held.
  void arrive(CallBackward& call, bool of_output, std::size_t index, const at::Tensor& value);
  void write(CallBackward& call);
  /// Nothing more comes of a pass, or at all: what is there of its calls is written.
  void complete(std::optional<int> pass = std::nullopt);
  /// Of a call that is complete, gone, or about to be written as far as it is. No mutex but its own is held.
  void forget_started(CallBackward& call);

  dump::Session& session;
  dump::Recorder& recorder;
  TensorDescriber& describer;
  std::atomic<std::uint64_t> step{0};  // hooks of another step do nothing
  std::mutex mutex;
  struct Started {
    const CallBackward* call;
    std::weak_ptr<CallBackward> owner;
  };
  std::vector<Started> started;  // calls that are incomplete, the latest last
  int noted_pass = -1;           // whose end is awaited
  struct Parameter {
    NodePtr accumulator;
    const torch::autograd::FunctionPreHook* hook;
  };
  std::vector<Parameter> parameters;

 private:
  void note_started(CallBackward& call);
  void describe(CallBackward& call, bool of_output, std::size_t index, const at::Tensor& value);
  void describe_with_files(CallBackward& call, bool is_kept);
  void describe_incomplete(CallBackward& call);
  void add(Gradient& gradient, const at::Tensor& contribution);
  void add_local(Gradient& gradient, const at::Tensor& contribution);
};

/// For all that runs inside of the engine, where an exception would end the training.
template <typename Work>
void guarded(dump::Recorder& recorder, std::string_view name, Work work) {
  try {
    work();
  } catch (const std::exception& e) {
    recorder.note_fault(name, e.what());
  }
}

}  // namespace msprobe::torch_adapter

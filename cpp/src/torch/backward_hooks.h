// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/SmallVector.h>
#include <torch/csrc/autograd/function_hook.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "dump/object_pool.h"
#include "torch/call_backward.h"
#include "torch/call_places.h"

/// Hooks on the nodes of autograd's graph that tell what passes them. None changes it.
namespace msprobe::torch_adapter {

/// What arrives at a node, before it runs. Used for modules, so that one without input gradients stands
/// before the calls inside of it, as a module that begins its backward does.
struct ArrivalHook final : torch::autograd::FunctionPreHook, Pooled {
  ArrivalHook(std::shared_ptr<CallBackward> of, Places at) : call(std::move(of)), places(std::move(at)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override;
  // A graph compiled by torch's compiled autograd runs without this hook.
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs&) const override {}

  std::shared_ptr<CallBackward> call;
  Places places;
};

/// What arrived at a node and what leaves it, after it ran.
struct DepartureHook final : torch::autograd::FunctionPostHook, Pooled {
  DepartureHook(std::shared_ptr<CallBackward> of, Places in, Places out)
      : call(std::move(of)), arriving(std::move(in)), leaving(std::move(out)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list& inputs) override;
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs&) const override {}

  std::shared_ptr<CallBackward> call;
  Places arriving;
  Places leaving;
};

/// The backward of a call that made one node: all of its gradients pass in one moment, so nothing waits for
/// anything. Most calls of functions are such.
struct OneNodeHook final : torch::autograd::FunctionPostHook, Pooled {
  static constexpr std::int16_t kNone = -1;    // an input without gradient
  static constexpr std::int16_t kHidden = -2;  // an input that has no place in the record

  OneNodeHook(std::shared_ptr<BackwardState> owner, std::string_view record);
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& leaving,
                                            const torch::autograd::variable_list& arriving) override;
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs&) const override {}

  std::shared_ptr<BackwardState> state;
  std::uint64_t step;  // hooks of another step do nothing
  std::shared_ptr<const dump::Frame> module;
  c10::SmallVector<char, 40> name;             // of the backward record
  c10::SmallVector<std::uint16_t, 2> outputs;  // for each output of the call, the number of it at the node
  c10::SmallVector<std::int16_t, 6> inputs;    // for each input of the call, the edge of the node to it

 private:
  std::string_view name_text() const { return {name.data(), name.size()}; }
  void write(const torch::autograd::variable_list& leaving,
             const torch::autograd::variable_list& arriving) const;
};

/// Of a parameter: the gradient of this backward, before it is added to `.grad`.
struct ParameterHook final : torch::autograd::FunctionPreHook, Pooled {
  ParameterHook(std::shared_ptr<BackwardState> owner, std::shared_ptr<dump::ParameterGradients> of,
                std::string_view parameter, trace::SlotId slot_id);
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override;
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs&) const override {}

  std::shared_ptr<BackwardState> state;
  std::shared_ptr<dump::ParameterGradients> record;
  std::string parameter_name;
  trace::SlotId slot;
  std::uint64_t step;
};

}  // namespace msprobe::torch_adapter

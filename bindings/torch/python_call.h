// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../python_stack.h"
#include "interception.h"
#include "msprobe/dump.h"
#include "msprobe/torch_tensors.h"
#include "torch_values.h"

/// Of parameters that FSDP gathers: name -> element that says where it lies.
using Placements = std::unordered_map<std::string, std::string>;

/// A call of Python code, for a session to ask what it is given and what it gives. All need the GIL; none
/// calls anything of the values. Borrows everything; several threads may have one each.
class PythonCall final : public msprobe::dump::CallValues {
 public:
  /// What the calls of a session have in common.
  struct Means {
    msprobe::dump::Recorder& recorder;
    msprobe::torch_adapter::TensorDescriber& describer;
    StackCollector* stacks;  // null: none are wanted
  };

  /// `inputs`, `outputs`: take the tensors among the arguments and results that were asked for last.
  /// `memory`: which tensors are measured; null: all.
  PythonCall(Means& means, const CallArguments& arguments, Tensors& inputs, Tensors& outputs,
             CallMemory* memory = nullptr)
      : means_(means), arguments_(arguments), inputs_(inputs), outputs_(outputs), memory_(memory) {}

  /// A tuple is several results, and so is torch's own kind of named tuple; everything else is one. A
  /// namedtuple of Python is an object of its fields. Null: the arguments are the results, as collectives
  /// work in place.
  void set_result(PyObject* result) { result_ = result; }
  /// Of a module: what is not None of its own parameters is shown.
  void set_module(PyObject* module, const Placements* placements) {
    module_ = module;
    placements_ = placements;
  }
  /// Its dict `_parameters`.
  pybind11::dict module_parameters() const;

  void arguments(msprobe::dump::ValueWriter& to) override;
  void keywords(msprobe::dump::ValueWriter& to) override;
  void results(msprobe::dump::ValueWriter& to) override;
  bool are_results_an_object() const override;
  void parameters(msprobe::dump::ValueWriter& to) override;
  void find_arguments() override;
  void find_results() override;
  msprobe::trace::StackId stack() override;

 private:
  template <typename Walk>
  void with_values(Tensors* tensors, const Walk& to);

  Means& means_;
  const CallArguments& arguments_;
  Tensors& inputs_;
  Tensors& outputs_;
  CallMemory* memory_;
  PyObject* result_ = nullptr;
  PyObject* module_ = nullptr;
  const Placements* placements_ = nullptr;
};

/// The tensors of the arguments, in their order, without describing them.
void collect_positional(const CallArguments& arguments, Tensors& tensors);
void collect_arguments(const CallArguments& arguments, Tensors& tensors);

/// A list of tensors whose memory the next one of this thread uses again. Lists may be open inside of each
/// other.
class TensorList {
 public:
  TensorList() {
    if (spare().empty()) return;
    tensors = std::move(spare().back());
    spare().pop_back();
  }
  ~TensorList() {
    tensors.clear();
    spare().push_back(std::move(tensors));
  }
  TensorList(const TensorList&) = delete;
  TensorList& operator=(const TensorList&) = delete;

  Tensors tensors;

 private:
  static std::vector<Tensors>& spare() {
    thread_local std::vector<Tensors> lists;
    return lists;
  }
};

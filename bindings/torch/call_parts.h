// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include <functional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "interception.h"
#include "msprobe/dump.h"
#include "msprobe/torch_dump.h"

/// Writes what a call was given and what it gave as the parts of its record (docs/formats/dump.md). All need
/// the GIL; none calls anything of the values. Several threads may write at once.
class CallParts {
 public:
  using Tensors = std::vector<at::Tensor>;
  using RecordId = msprobe::trace::RecordId;
  /// Of parameters that FSDP gathers: name -> element that says where it lies.
  using Placements = std::unordered_map<std::string, std::string>;

  CallParts(msprobe::dump::Recorder& recorder, msprobe::torch_adapter::TensorDescriber& describer)
      : recorder_(recorder), describer_(describer) {}

  /// The parts input_args and input_kwargs. Appends the tensors among them to `tensors`.
  void inputs(RecordId record, const std::string& name, const CallArguments& arguments, Tensors& tensors);

  /// The part output. A tuple is several results, and so is torch's own kind of named tuple; everything else
  /// is one. A namedtuple of Python is an object of its fields, in place of the list. Appends the tensors
  /// among them to `tensors`, and tells the recorder of a NaN or an infinity.
  void output(RecordId record, const std::string& name, PyObject* result, Tensors& tensors);

  /// The part output of a call whose result is in its arguments, as collectives work in place.
  void arguments_as_output(RecordId record, const std::string& name, const CallArguments& arguments);

  /// The part parameters of a module: what is not None. `placements` may be null.
  void parameters(RecordId record, const std::string& name, const pybind11::dict& parameters,
                  const Placements* placements);

  /// A value that the script saves.
  void saved(RecordId record, const std::string& name, PyObject* value);

  /// In place of a value that the script saves the slots of its gradients: whoever calls fills the one of a
  /// tensor when `watch` has told of it.
  using WatchTensor =
      std::function<void(const at::Tensor&, msprobe::trace::SlotId, const std::string& position)>;
  void saved_gradients(const std::string& name, PyObject* value, const WatchTensor& watch);

  /// Whether a tensor of the arguments, or of `result` if it is given, holds a NaN or an infinity. Nothing is
  /// stored. Appends the tensors to `tensors` if it is given.
  bool overflows(const CallArguments* arguments, PyObject* result, Tensors* tensors = nullptr);

 private:
  template <typename Walk>
  void part(RecordId record, msprobe::trace::Part part, const std::string& name, std::string_view category,
            Tensors* tensors, Walk walk);

  msprobe::dump::Recorder& recorder_;
  msprobe::torch_adapter::TensorDescriber& describer_;
};

/// The tensors of the arguments, in their order, without describing them.
void collect_positional(const CallArguments& arguments, CallParts::Tensors& tensors);
void collect_arguments(const CallArguments& arguments, CallParts::Tensors& tensors);

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

  CallParts::Tensors tensors;

 private:
  static std::vector<CallParts::Tensors>& spare() {
    thread_local std::vector<CallParts::Tensors> lists;
    return lists;
  }
};

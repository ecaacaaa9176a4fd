// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/torch_dump.h"

/// Walks Python values and appends them to an element tree as docs/formats/dump.md ("Elements") says. Nothing
/// of the values is called: no property, no iterator, no repr of a user's class. Needs the GIL.
class ElementWalker {
 public:
  ElementWalker(msprobe::torch_adapter::TensorDescriber& describer, msprobe::trace::ElementWriter& out,
                std::vector<at::Tensor>* tensors)
      : describer_(describer), out_(out), tensors_(tensors) {}

  /// The record that what follows belongs to, and how its tensors' files are called: "input", "output", ...
  /// `keeps_positions`: tensors get files, whose names say where each stood.
  void begin(std::string_view record, std::string_view category, bool keeps_positions);

  /// One value at `index` of the category.
  void item(PyObject* value, Py_ssize_t index);
  /// One value under a key. `placement`: of a tensor that does not tell it (TensorDescriber::describe).
  void keyed(PyObject* key, PyObject* value, std::string_view placement = {});
  /// One value that is the whole category.
  void whole(PyObject* value);

  /// Whether a tuple is a namedtuple of Python.
  static bool has_fields(PyObject* tuple);

  /// For the gradients of values, which come later: `maker` appends what stands for a tensor's, everything
  /// else is null (see PrecisionDebugger.save).
  using SlotMaker = std::function<void(const at::Tensor&, const std::string& position)>;
  void gradients_of(SlotMaker maker) { slots_ = std::move(maker); }

 private:
  void walk(PyObject* value, std::string_view key, int depth);
  void walk_sequence(PyObject* const* items, Py_ssize_t count, int depth);
  void walk_dict(PyObject* dict, int depth);
  bool walk_number(PyObject* value);
  bool walk_torch(PyObject* value);
  bool walk_numpy(PyObject* value);
  std::string stored_array(const pybind11::object& array);
  bool walk_fields(PyObject* value, int depth);
  bool walk_distributed(PyObject* value);
  void walk_dtype_or_device(PyObject* value, bool device);
  void tensor(const at::Tensor& tensor);
  std::size_t push(std::string_view part);
  void pop(std::size_t size) {
    if (keeps_positions_) position_.resize(size);
  }

  msprobe::torch_adapter::TensorDescriber& describer_;
  msprobe::trace::ElementWriter& out_;
  std::vector<at::Tensor>* tensors_;
  SlotMaker slots_;
  std::string_view record_;
  std::string_view placement_;
  std::string position_;
  bool keeps_positions_ = false;
};

/// The tensors inside a value, in the order a walk meets them, without describing them.
void collect_tensors(PyObject* value, std::vector<at::Tensor>& out, int depth = 0);

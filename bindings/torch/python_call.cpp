// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "python_call.h"

#include <torch/csrc/Size.h>

#include "../python_text.h"

namespace py = pybind11;

using msprobe::dump::ValueWriter;

void collect_positional(const CallArguments& arguments, Tensors& tensors) {
  for (Py_ssize_t i = 0; i < arguments.positional; ++i) collect_tensors(arguments.values[i], tensors);
}

void collect_arguments(const CallArguments& arguments, Tensors& tensors) {
  collect_positional(arguments, tensors);
  arguments.for_each_keyword([&](PyObject*, PyObject* value) { collect_tensors(value, tensors); });
}

namespace {

bool is_several(PyObject* result) { return PyTuple_Check(result) != 0 && THPSize_Check(result) == 0; }

void put_item(PythonValues& python, ValueWriter& to, PyObject* value, Py_ssize_t index) {
  to.item(static_cast<std::size_t>(index), [&] { python.put(value, to); });
}

}  // namespace

template <typename Walk>
void PythonCall::with_values(Tensors* tensors, const Walk& to) {
  TorchValues values(means_.describer, tensors, memory_);
  PythonValues python(means_.recorder, values);
  to(python);
}

void PythonCall::arguments(ValueWriter& to) {
  inputs_.clear();
  with_values(&inputs_, [&](PythonValues& python) {
    for (Py_ssize_t i = 0; i < arguments_.positional; ++i) {
      if (memory_ != nullptr) memory_->at_argument(i, {});
      put_item(python, to, arguments_.values[i], i);
    }
  });
}

void PythonCall::keywords(ValueWriter& to) {
  with_values(&inputs_, [&](PythonValues& python) {
    arguments_.for_each_keyword([&](PyObject* key, PyObject* value) {
      if (memory_ != nullptr) memory_->at_argument(-1, utf8(key));
      python.put_member(key, value, to);
    });
  });
}

bool PythonCall::are_results_an_object() const {
  return result_ != nullptr && is_several(result_) && PythonValues::has_fields(result_);
}

void PythonCall::results(ValueWriter& to) {
  outputs_.clear();
  if (memory_ != nullptr) memory_->at_results();
  with_values(&outputs_, [&](PythonValues& python) {
    if (result_ == nullptr) {
      for (Py_ssize_t i = 0; i < arguments_.positional; ++i) put_item(python, to, arguments_.values[i], i);
      Py_ssize_t index = arguments_.positional;
      arguments_.for_each_keyword([&](PyObject*, PyObject* value) { put_item(python, to, value, index++); });
    } else if (are_results_an_object()) {
      python.put(result_, to);
    } else if (is_several(result_)) {
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result_); ++i)
        put_item(python, to, PyTuple_GET_ITEM(result_, i), i);
    } else {
      put_item(python, to, result_, 0);
    }
  });
}

py::dict PythonCall::module_parameters() const {
  static const py::handle name = PyUnicode_InternFromString("_parameters");
  return py::handle(module_).attr(name);
}

void PythonCall::parameters(ValueWriter& to) {
  const py::dict parameters = module_parameters();
  CallArguments named;
  named.dict = parameters.ptr();
  TorchValues values(means_.describer);
  PythonValues python(means_.recorder, values);
  named.for_each_keyword([&](PyObject* key, PyObject* value) {
    if (value == Py_None) return;
    if (placements_ != nullptr) {
      const auto found = placements_->find(std::string(utf8(key)));
      values.set_placement(found == placements_->end() ? std::string_view() : found->second);
    }
    python.put_member(key, value, to);
  });
}

void PythonCall::find_arguments() {
  inputs_.clear();
  collect_arguments(arguments_, inputs_);
}

void PythonCall::find_results() {
  outputs_.clear();
  if (result_ != nullptr) collect_tensors(result_, outputs_);
}

msprobe::trace::StackId PythonCall::stack() {
  return means_.stacks == nullptr ? msprobe::trace::kNoStack : means_.stacks->collect();
}

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "function_table.h"

#include <frameobject.h>

namespace py = pybind11;

std::shared_ptr<Api> FunctionTable::add(const std::string& name, bool distributed) {
  auto& api = by_name_[name];
  if (!api) {
    api = std::make_shared<Api>();
    api->name = name;
    api->distributed = distributed;
  }
  return api;
}

void FunctionTable::observe(const py::object& function, const std::string& name) {
  const auto api = add(name, false);
  if (const auto known = by_function_.find(function.ptr()); known != by_function_.end()) {
    if (known->second != api.get()) known->second->when_from_torch = api.get();
    return;
  }
  by_function_.emplace(function.ptr(), api.get());
  functions_.push_back(function);
}

Api* FunctionTable::find(PyObject* function) {
  const auto found = by_function_.find(function);
  if (found == by_function_.end()) return all_functions_ ? find_unlisted(function) : nullptr;
  Api* api = found->second;
  return api != nullptr && api->when_from_torch != nullptr && caller_speaks_of_torch() ? api->when_from_torch
                                                                                       : api;
}

void FunctionTable::begin_step() {
  for (Api* api : called_) api->count = 0;
  called_.clear();
}

// Its name is None for what computes nothing.
Api* FunctionTable::find_unlisted(PyObject* function) {
  if (Py_TYPE(function) == &_PyMethodWrapper_Type)
    return nullptr;  // an attribute is read: a new object each time
  static const py::handle name_of =
      py::object(py::module_::import("msprobe.hooks.api_list").attr("name_of_unlisted")).release();
  const auto held = py::reinterpret_borrow<py::object>(function);
  const py::object name = name_of(held);
  Api* api = name.is_none() ? nullptr : add(name.cast<std::string>(), false).get();
  by_function_.emplace(function, api);
  functions_.push_back(held);
  return api;
}

// Whether the calling code names `torch` and not torch.nn.functional among its globals and attributes.
bool FunctionTable::caller_speaks_of_torch() {
  PyFrameObject* frame = PyEval_GetFrame();
  if (frame == nullptr) return false;
  const auto code = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
  const auto known = speaks_of_torch_.find(code.ptr());
  if (known != speaks_of_torch_.end()) return known->second.second;
  bool torch = false;
  bool functional = false;
  for (const auto& name : py::tuple(code.attr("co_names"))) {
    const auto text = name.cast<std::string>();
    torch = torch || text == "torch";
    functional = functional || text == "F" || text == "functional";
  }
  return speaks_of_torch_.emplace(code.ptr(), std::pair(code, torch && !functional)).first->second.second;
}

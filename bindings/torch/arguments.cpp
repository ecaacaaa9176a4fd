// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "arguments.h"

namespace py = pybind11;

namespace {

constexpr int kDeepest = 50;  // of nested values, as in a dump

py::object replaced(PyObject* value, const OwnedArguments::Replace& replace, int depth) {
  const auto same = py::reinterpret_borrow<py::object>(value);
  if (depth > kDeepest) return same;
  if (PyList_CheckExact(value) != 0) {
    py::list copy(static_cast<std::size_t>(PyList_GET_SIZE(value)));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(value); ++i) {
      copy[static_cast<std::size_t>(i)] = replaced(PyList_GET_ITEM(value, i), replace, depth + 1);
    }
    return copy;
  }
  if (PyTuple_CheckExact(value) != 0) {
    py::tuple copy(static_cast<std::size_t>(PyTuple_GET_SIZE(value)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
      copy[static_cast<std::size_t>(i)] = replaced(PyTuple_GET_ITEM(value, i), replace, depth + 1);
    }
    return copy;
  }
  if (PyDict_CheckExact(value) != 0) {
    py::dict copy;
    for (const auto& [key, item] : py::reinterpret_borrow<py::dict>(value)) {
      copy[key] = replaced(item.ptr(), replace, depth + 1);
    }
    return copy;
  }
  py::object other = replace(value);
  return other ? other : same;
}

}  // namespace

bool for_each_tensor(PyObject* value, const std::function<bool(PyObject*)>& use, int depth) {
  if (depth > kDeepest || value == Py_None) return true;
  if (THPVariable_Check(value)) return use(value);
  if (PyTuple_Check(value) != 0) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
      if (!for_each_tensor(PyTuple_GET_ITEM(value, i), use, depth + 1)) return false;
    }
  } else if (PyList_Check(value) != 0) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(value); ++i) {
      if (!for_each_tensor(PyList_GET_ITEM(value, i), use, depth + 1)) return false;
    }
  } else if (PyDict_Check(value) != 0) {
    PyObject* item = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(value, &position, nullptr, &item) != 0) {
      if (!for_each_tensor(item, use, depth + 1)) return false;
    }
  }
  return true;
}

OwnedArguments::OwnedArguments(const CallArguments& given, const Replace& replace) {
  positional_.reserve(static_cast<std::size_t>(given.positional));
  for (Py_ssize_t i = 0; i < given.positional; ++i) {
    positional_.push_back(replaced(given.values[i], replace, 0));
  }
  given.for_each_keyword(
      [&](PyObject* key, PyObject* value) { keywords_[py::handle(key)] = replaced(value, replace, 0); });
}

CallArguments OwnedArguments::view() const {
  pointers_.clear();
  for (const py::object& value : positional_) pointers_.push_back(value.ptr());
  CallArguments arguments;
  arguments.values = pointers_.data();
  arguments.positional = static_cast<Py_ssize_t>(pointers_.size());
  if (!keywords_.empty()) arguments.dict = keywords_.ptr();
  return arguments;
}

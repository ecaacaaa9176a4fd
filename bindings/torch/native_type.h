// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Types of Python made by hand, for objects whose calls must cost as little as possible.

#include <pybind11/pybind11.h>

#include <memory>
#include <new>
#include <utility>

/// For Py_tp_dealloc of an `Object` made by create().
template <typename Object>
void destroy(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  std::destroy_at(reinterpret_cast<Object*>(self));
  type->tp_free(self);
  Py_DECREF(type);
}

/// A new object of a type without a constructor in Python; members beside the head are constructed here.
template <typename Object, typename... Members>
PyObject* create(PyTypeObject* type, Members&&... members) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self == nullptr) throw pybind11::error_already_set();
  const PyObject head = *self;
  ::new (self) Object{head, std::forward<Members>(members)...};
  return self;
}

/// Keeps a Python error that is on its way while something else is done.
struct KeepPythonError {
  KeepPythonError() { PyErr_Fetch(&type, &value, &trace); }
  ~KeepPythonError() { PyErr_Restore(type, value, trace); }
  KeepPythonError(const KeepPythonError&) = delete;
  KeepPythonError& operator=(const KeepPythonError&) = delete;
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* trace = nullptr;
};

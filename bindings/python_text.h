// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include <exception>
#include <string>
#include <string_view>

/// The text of a str, as long as that lives; "?" for one with lone surrogates, which has no UTF-8. Needs the
/// GIL, leaves no Python error behind.
inline std::string_view utf8(PyObject* text) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text, &size);
  if (data != nullptr) return {data, static_cast<std::size_t>(size)};
  PyErr_Clear();
  return "?";
}

/// What an exception says. Of a Python error not by what(): where the stack of Python is full, the text of
/// the error cannot be made, and what() tries without end.
inline std::string error_text(const std::exception& error) {
  const auto* python = dynamic_cast<const pybind11::error_already_set*>(&error);
  if (python == nullptr) return error.what();
  const pybind11::gil_scoped_acquire gil;
  const pybind11::error_scope kept;
  std::string text(utf8(python->type().attr("__name__").ptr()));
  const auto value = pybind11::reinterpret_steal<pybind11::object>(PyObject_Str(python->value().ptr()));
  if (value) return text.append(": ").append(utf8(value.ptr()));
  PyErr_Clear();
  return text;
}

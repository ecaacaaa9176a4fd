// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "core.h"

/// A str. Names in files and messages need not be UTF-8; `errors` is what becomes of such bytes, by the words
/// of Python's bytes.decode().
inline py::str decoded(std::string_view utf8, const char* errors) {
  PyObject* const result = PyUnicode_DecodeUTF8(utf8.data(), static_cast<py::ssize_t>(utf8.size()), errors);
  if (result == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(result);
}

inline py::object escaped_text(std::string_view utf8) { return decoded(utf8, "backslashreplace"); }
inline py::str readable_text(std::string_view utf8) { return decoded(utf8, "replace"); }

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

/// Drops a reference on any thread, with or without the GIL. Where the interpreter has ended, or ends and
/// would end a thread that asks for the GIL, the object is left as it is: there is nobody to free it.
inline void drop_anywhere(PyObject* object) noexcept {
  if (object == nullptr || Py_IsInitialized() == 0) return;
  if (PyGILState_Check() != 0) {
    Py_DECREF(object);
    return;
  }
#if PY_VERSION_HEX >= 0x030d0000
  const bool ends = Py_IsFinalizing() != 0;
#else
  const bool ends = _Py_IsFinalizing() != 0;
#endif
  // The thread on which the interpreter ends is the first of the process, unless a program has embedded it.
  if (ends && syscall(SYS_gettid) != getpid()) return;
  const pybind11::gil_scoped_acquire gil;
  Py_DECREF(object);
}

/// A Python object that C++ keeps: a member of a class, where T, any of pybind11's, stands for arguments and
/// locals. Whoever is the last to let go of it need not have the GIL: autograd drops its graph, with all that
/// hangs on it, without. Made, copied and assigned to with the GIL.
template <typename T = pybind11::object>
class Held : public T {
 public:
  Held() = default;
  Held(T object) : T(std::move(object)) {}  // NOLINT(google-explicit-constructor): as T itself
  ~Held() { drop_anywhere(this->release().ptr()); }
  Held(const Held&) = default;
  Held(Held&&) noexcept = default;
  Held& operator=(const Held&) = default;
  Held& operator=(Held&&) noexcept = default;
};

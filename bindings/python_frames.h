// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The running frames of Python: what _torch keeps of a call in a dump, and by what _core counts calls.

#include <pybind11/pybind11.h>
// Python's own come first.
#include <frameobject.h>

#include <cstddef>
#include <cstdint>
#include <vector>

/// A place in the code of a program. The code object is borrowed: who keeps a position keeps the object
/// alive, or its address may come to stand for other code.
struct CodePosition {
  PyCodeObject* code;
  int instruction;
  bool operator==(const CodePosition&) const = default;
};

struct CodePositionHash {
  std::size_t operator()(const CodePosition& position) const noexcept {
    return reinterpret_cast<std::uintptr_t>(position.code) * 31 +
           static_cast<std::size_t>(position.instruction);
  }
  std::size_t operator()(const std::vector<CodePosition>& stack) const noexcept {
    std::size_t result = stack.size();
    for (const CodePosition& position : stack) result = (result ^ (*this)(position)) * 0x9e3779b97f4a7c15U;
    return result;
  }
};

#if PY_VERSION_HEX >= 0x030b0000 && PY_VERSION_HEX < 0x030c0000

/// What CPython 3.11 keeps of a running frame (its Include/internal/pycore_frame.h). Walking these makes no
/// frame objects, which the garbage collector would have to visit.
struct RunningFrame {
  PyFunctionObject* function;
  PyObject* globals;
  PyObject* builtins;
  PyObject* locals;
  PyCodeObject* code;
  PyFrameObject* object;
  RunningFrame* previous;
  std::uint16_t* instruction;
};

/// Calls use(code, instruction) for every frame of this thread, innermost first, until it returns false.
/// Needs the GIL.
template <typename Use>
void for_each_frame(Use use) {
  const auto* frame = reinterpret_cast<const RunningFrame*>(PyThreadState_Get()->cframe->current_frame);
  for (; frame != nullptr; frame = frame->previous) {
    const auto offset = reinterpret_cast<const char*>(frame->instruction) - frame->code->co_code_adaptive;
    if (!use(frame->code, static_cast<int>(offset))) return;
  }
}

inline int line_of(PyCodeObject* code, int instruction) { return PyCode_Addr2Line(code, instruction); }

#else

// Here the place within the code is its line.
template <typename Use>
void for_each_frame(Use use) {
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame != nullptr) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const bool go_on = use(code, PyFrame_GetLineNumber(frame));
    Py_DECREF(code);
    PyFrameObject* next = go_on ? PyFrame_GetBack(frame) : nullptr;
    Py_DECREF(frame);
    frame = next;
  }
}

inline int line_of(PyCodeObject*, int line) { return line; }

#endif

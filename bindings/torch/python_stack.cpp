// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "python_stack.h"

#include <frameobject.h>

#include <string_view>

namespace py = pybind11;

namespace {

std::string_view utf8(PyObject* text) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text, &size);
  if (data == nullptr) PyErr_Clear();
  return data == nullptr ? std::string_view() : std::string_view(data, static_cast<std::size_t>(size));
}

// Calls use(code, instruction) for every frame of this thread, innermost first, until it returns false.
template <typename Use>
void for_each_frame(Use use) {
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame != nullptr) {
    PyCodeObject* code = PyFrame_GetCode(frame);
#if PY_VERSION_HEX >= 0x030b0000
    const int instruction = PyFrame_GetLasti(frame);
#else
    const int instruction = PyFrame_GetLineNumber(frame);  // only tells positions apart
#endif
    const bool go_on = use(code, instruction, frame);
    Py_DECREF(code);
    PyFrameObject* next = go_on ? PyFrame_GetBack(frame) : nullptr;
    Py_DECREF(frame);
    frame = next;
  }
}

// The folder of the package, with its separator at the end: frames below it are ours.
const std::string& own_folder() {
  static const std::string folder = [] {
    const auto file = py::module_::import("msprobe").attr("__file__").cast<std::string>();
    return file.substr(0, file.rfind('/') + 1);
  }();
  return folder;
}

std::string source_line(PyCodeObject* code, int line, PyObject* globals) {
  static const py::handle getline = py::object(py::module_::import("linecache").attr("getline")).release();
  const auto text = py::reinterpret_steal<py::object>(
      PyObject_CallFunction(getline.ptr(), "OiO", code->co_filename, line, globals));
  if (!text) {
    PyErr_Clear();
    return {};
  }
  return text.attr("strip")().cast<std::string>();
}

}  // namespace

msprobe::trace::StackId StackCollector::collect() {
  stack_.clear();
  for_each_frame([&](PyCodeObject* code, int instruction, PyFrameObject* frame) {
    const Position position{code, instruction};
    stack_.push_back(position);
    if (texts_.find(position) == texts_.end()) {
      // Empty for what stack.json leaves out: our own frames and those without source.
      std::string text;
      const std::string file(utf8(code->co_filename));
      if (!file.starts_with(own_folder())) {
        const int line = PyFrame_GetLineNumber(frame);
        const auto globals = py::reinterpret_steal<py::object>(
            PyObject_GetAttrString(reinterpret_cast<PyObject*>(frame), "f_globals"));
        const std::string source = source_line(code, line, globals ? globals.ptr() : Py_None);
        if (!source.empty()) {
          text = "File " + file + ", line " + std::to_string(line) + ", in " +
                 std::string(utf8(code->co_name)) + ", \n " + source;
        }
      }
      Py_INCREF(code);
      texts_.emplace(position, std::move(text));
    }
    return true;
  });
  if (const auto known = ids_.find(stack_); known != ids_.end()) return known->second;
  std::vector<std::string_view> frames;
  for (const Position& position : stack_) {
    if (const std::string& text = texts_.at(position); !text.empty()) frames.push_back(text);
  }
  const msprobe::trace::StackId id = recorder_.stack(frames);
  ids_.emplace(stack_, id);
  return id;
}

bool StackCollector::in_recompute() {
  bool found = false;
  int depth_of_backward = -1;  // frames since a function called backward was passed
  for_each_frame([&](PyCodeObject* code, int, PyFrameObject*) {
    const std::string_view name = utf8(code->co_name);
    const std::string_view file = utf8(code->co_filename);
    if (name == "recompute_fn" && file.ends_with("torch/utils/checkpoint.py")) found = true;
    if (depth_of_backward >= 0 && ++depth_of_backward <= 2 && file.ends_with("torch/autograd/function.py")) {
      found = true;
    }
    if (name == "backward" || name == "checkpoint_function_backward") depth_of_backward = 0;
    return !found;
  });
  return found;
}

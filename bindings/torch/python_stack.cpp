// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "python_stack.h"

#include <string_view>

#include "python_text.h"

namespace py = pybind11;

namespace {

// The folder of the package, with its separator at the end: frames below it are ours.
const std::string& own_folder() {
  static const std::string folder = [] {
    const auto file = py::module_::import("msprobe").attr("__file__").cast<std::string>();
    return file.substr(0, file.rfind('/') + 1);
  }();
  return folder;
}

// Code that leads a function to its observer calls a constant, which ordinary code does not.
bool leads_to_observer(PyCodeObject* code) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_consts); ++i) {
    if (PyCallable_Check(PyTuple_GET_ITEM(code->co_consts, i)) != 0) return true;
  }
  return false;
}

std::string source_line(PyCodeObject* code, int line) {
  static const py::handle getline = py::object(py::module_::import("linecache").attr("getline")).release();
  const auto text =
      py::reinterpret_steal<py::object>(PyObject_CallFunction(getline.ptr(), "Oi", code->co_filename, line));
  if (!text) {
    PyErr_Clear();
    return {};
  }
  return text.attr("strip")().cast<std::string>();
}

}  // namespace

// Null for what stack.json leaves out: our own frames, those by which torch comes to our mode, and those
// without source.
const std::string* StackCollector::text_of(const CodePosition& position) {
  const auto known = texts_.find(position);
  if (known != texts_.end()) return known->second;
  const std::string* text = nullptr;
  const std::string file(utf8(position.code->co_filename));
  if (!file.starts_with(own_folder()) && !file.ends_with("/torch/overrides.py") &&
      !leads_to_observer(position.code)) {
    const int line = line_of(position.code, position.instruction);
    const std::string source = source_line(position.code, line);
    if (!source.empty()) {
      text = &*distinct_texts_
                   .insert("File " + file + ", line " + std::to_string(line) + ", in " +
                           std::string(utf8(position.code->co_name)) + ", \n " + source)
                   .first;
    }
  }
  Py_INCREF(position.code);
  texts_.emplace(position, text);
  return text;
}

msprobe::trace::StackId StackCollector::collect() {
  stack_.clear();
  for_each_frame([&](PyCodeObject* code, int instruction) {
    stack_.push_back({code, instruction});
    return true;
  });
  if (const auto known = ids_.find(stack_); known != ids_.end()) return known->second;
  const std::vector<CodePosition> positions = stack_;  // looking up source lines runs Python code
  std::vector<const std::string*> texts;
  for (const CodePosition& position : positions) {
    if (const std::string* text = text_of(position)) texts.push_back(text);
  }
  const auto [entry, is_new] = ids_by_text_.emplace(texts, 0);
  if (is_new) {
    std::vector<std::string_view> frames;
    for (const std::string* text : texts) frames.emplace_back(*text);
    entry->second = recorder_.stack(frames);
  }
  ids_.emplace(positions, entry->second);
  return entry->second;
}

bool StackCollector::in_recompute() {
  bool found = false;
  int depth_of_backward = -1;  // frames since a function called backward was passed
  for_each_frame([&](PyCodeObject* code, int) {
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

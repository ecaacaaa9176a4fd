// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "call_parts.h"

#include <torch/csrc/Size.h>

#include "python_elements.h"
#include "python_text.h"

namespace py = pybind11;
namespace trace = msprobe::trace;

namespace {

// What is written at the moment.
thread_local trace::ElementWriter element_buffer;

void walk_positional(ElementWalker& walker, const CallArguments& arguments) {
  for (Py_ssize_t i = 0; i < arguments.positional; ++i) walker.item(arguments.values[i], i);
}

void walk_arguments(ElementWalker& walker, const CallArguments& arguments) {
  walk_positional(walker, arguments);
  arguments.for_each_keyword([&](PyObject*, PyObject* value) { walker.item(value, 0); });
}

}  // namespace

void collect_positional(const CallArguments& arguments, CallParts::Tensors& tensors) {
  for (Py_ssize_t i = 0; i < arguments.positional; ++i) collect_tensors(arguments.values[i], tensors);
}

void collect_arguments(const CallArguments& arguments, CallParts::Tensors& tensors) {
  collect_positional(arguments, tensors);
  arguments.for_each_keyword([&](PyObject*, PyObject* value) { collect_tensors(value, tensors); });
}

// What `walk` walks, with tensor files named after `category`.
template <typename Walk>
void CallParts::part(RecordId record, trace::Part part, const std::string& name, std::string_view category,
                     Tensors* tensors, Walk walk) {
  element_buffer.clear();
  ElementWalker walker(describer_, element_buffer, tensors);
  walker.begin(name, category, recorder_.stores(name));
  walk(walker);
  recorder_.part(record, part, element_buffer.bytes());
}

void CallParts::inputs(RecordId record, const std::string& name, const CallArguments& arguments,
                       Tensors& tensors) {
  part(record, trace::Part::kInputArgs, name, "input", &tensors,
       [&](ElementWalker& walker) { walk_positional(walker, arguments); });
  part(record, trace::Part::kInputKwargs, name, "kwargs", &tensors, [&](ElementWalker& walker) {
    element_buffer.begin_object();
    arguments.for_each_keyword([&](PyObject* key, PyObject* value) { walker.keyed(key, value); });
    element_buffer.end();
  });
}

void CallParts::output(RecordId record, const std::string& name, PyObject* result, Tensors& tensors) {
  const bool several = PyTuple_Check(result) != 0 && THPSize_Check(result) == 0;
  const bool fields = several && ElementWalker::has_fields(result);
  const trace::Part kind = fields ? trace::Part::kOutputObject : trace::Part::kOutput;
  part(record, kind, name, "output", &tensors, [&](ElementWalker& walker) {
    if (fields) {
      walker.whole(result);
    } else if (several) {
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result); ++i) walker.item(PyTuple_GET_ITEM(result, i), i);
    } else {
      walker.item(result, 0);
    }
  });
  recorder_.note_output(name, element_buffer.worst());
}

void CallParts::arguments_as_output(RecordId record, const std::string& name,
                                    const CallArguments& arguments) {
  part(record, trace::Part::kOutput, name, "output", nullptr, [&](ElementWalker& walker) {
    walk_positional(walker, arguments);
    Py_ssize_t index = arguments.positional;
    arguments.for_each_keyword([&](PyObject*, PyObject* value) { walker.item(value, index++); });
  });
}

void CallParts::parameters(RecordId record, const std::string& name, const py::dict& parameters,
                           const Placements* placements) {
  const auto placement_of = [placements](PyObject* key) {
    if (placements == nullptr) return std::string_view();
    const auto found = placements->find(std::string(utf8(key)));
    return found == placements->end() ? std::string_view() : std::string_view(found->second);
  };
  CallArguments named;
  named.dict = parameters.ptr();
  part(record, trace::Part::kParameters, name, "parameters", nullptr, [&](ElementWalker& walker) {
    element_buffer.begin_object();
    named.for_each_keyword([&](PyObject* key, PyObject* value) {
      if (value != Py_None) walker.keyed(key, value, placement_of(key));
    });
    element_buffer.end();
  });
}

void CallParts::saved(RecordId record, const std::string& name, PyObject* value) {
  part(record, trace::Part::kValue, name, "", nullptr, [&](ElementWalker& walker) { walker.whole(value); });
}

void CallParts::saved_gradients(const std::string& name, PyObject* value, const WatchTensor& watch) {
  trace::ElementWriter out;
  ElementWalker walker(describer_, out, nullptr);
  walker.begin(name, "", recorder_.stores(name));
  walker.gradients_of([&](const at::Tensor& tensor, const std::string& position) {
    const trace::SlotId slot = recorder_.new_slot();
    out.slot(slot);
    if (tensor.requires_grad()) watch(tensor, slot, position);
  });
  walker.whole(value);
  recorder_.part(recorder_.record(trace::RecordKind::kSaved, name), trace::Part::kValue, out.bytes());
}

bool CallParts::overflows(const CallArguments* arguments, PyObject* result, Tensors* tensors) {
  element_buffer.clear();
  ElementWalker walker(describer_, element_buffer, tensors);
  walker.begin({}, "", false);
  if (arguments != nullptr) walk_arguments(walker, *arguments);
  if (result != nullptr) walker.item(result, 0);
  return element_buffer.worst() != trace::Badness::kGood;
}

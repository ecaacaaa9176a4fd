// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "module_calls.h"

#include <structmember.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <array>
#include <cstddef>
#include <utility>

#include "../held.h"
#include "graph_capture.h"
#include "native_type.h"

namespace py = pybind11;

namespace {

// Tables of hooks that send _call_impl on its long way: of a module, and of the process.
constexpr std::array kOwnTables{"_backward_hooks", "_backward_pre_hooks", "_forward_hooks",
                                "_forward_pre_hooks"};
constexpr std::array kGlobalTables{"_global_backward_hooks", "_global_backward_pre_hooks",
                                   "_global_forward_hooks", "_global_forward_pre_hooks"};
using Tables = std::array<Held<>, 4>;

struct ModuleCall {
  PyObject_HEAD vectorcallfunc vectorcall;
  std::shared_ptr<ModuleObserver> observer;
  Held<> original;
  Held<> with_hooks;
  Tables global_tables;
  Tables own_tables;  // their names
  Held<> forward;

  bool has_global_hooks() const {
    for (const py::object& table : global_tables) {
      if (PyDict_GET_SIZE(table.ptr()) > 0) return true;
    }
    return false;
  }

  // What is no ordinary module is for torch to judge, as is one with hooks.
  bool has_own_hooks(PyObject* module) const {
    for (const py::object& name : own_tables) {
      PyObject* table = PyObject_GetAttr(module, name.ptr());
      if (table == nullptr) PyErr_Clear();
      const bool empty = table != nullptr && PyDict_Check(table) != 0 && PyDict_GET_SIZE(table) == 0;
      Py_XDECREF(table);
      if (!empty) return true;
    }
    return false;
  }

  PyObject* observe(PyObject* module, const CallArguments& arguments) const {
    observer->begin_module(module, arguments);
    PyObject* result = nullptr;
    if (PyObject* function = PyObject_GetAttr(module, forward.ptr())) {
      result = arguments.call(function);
      Py_DECREF(function);
    }
    const KeepPythonError no_error_of_ours;
    observer->end_module(module, arguments, result);
    return result;
  }
};

// By vectorcall: the other way counts as one more call of Python inside of each other, and modules could nest
// less deep than without us.
PyObject* call_module(PyObject* self, PyObject* const* values, std::size_t count, PyObject* names) {
  const auto& call = *reinterpret_cast<ModuleCall*>(self);
  CallArguments arguments;
  arguments.values = values;
  arguments.positional = PyVectorcall_NARGS(count);
  arguments.names = names;
  PyObject* module = arguments.positional > 0 ? values[0] : nullptr;
  if (module == nullptr || !call.observer->watches(module) || captures_graph()) {
    return arguments.call(call.original.ptr());
  }
  if (!call.has_global_hooks() && !torch::jit::tracer::isTracing() && !call.has_own_hooks(module)) {
    ++arguments.values;
    --arguments.positional;
    return call.observe(module, arguments);
  }
  const auto args = py::reinterpret_steal<py::tuple>(PyTuple_New(arguments.positional));
  const auto given = py::reinterpret_steal<py::dict>(PyDict_New());
  if (!args || !given) return nullptr;
  for (Py_ssize_t i = 0; i < arguments.positional; ++i) {
    Py_INCREF(values[i]);
    PyTuple_SET_ITEM(args.ptr(), i, values[i]);
  }
  bool is_complete = true;
  arguments.for_each_keyword([&](PyObject* key, PyObject* value) {
    is_complete = is_complete && PyDict_SetItem(given.ptr(), key, value) == 0;
  });
  if (!is_complete) return nullptr;
  return PyObject_CallFunctionObjArgs(call.with_hooks.ptr(), call.original.ptr(), args.ptr(), given.ptr(),
                                      nullptr);
}

PyTypeObject* module_call_type() {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(ModuleCall, vectorcall), READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(&destroy<ModuleCall>)},
                                {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
                                {Py_tp_members, members},
                                {0, nullptr}};
  static PyType_Spec spec = {"msprobe._torch.ModuleCall", sizeof(ModuleCall), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, slots};
  static auto* type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (type == nullptr) throw py::error_already_set();
  return type;
}

py::object interned(const char* text) {
  return py::reinterpret_steal<py::object>(PyUnicode_InternFromString(text));
}

}  // namespace

void ModuleObserver::before_module(const py::object& module, const py::tuple& args) {
  if (!captures_graph()) begin_module(module.ptr(), CallArguments::of(args.ptr(), nullptr));
}

void ModuleObserver::after_module(const py::args& given) {
  const bool complete = given.size() >= 4;
  const py::object args = given[1];
  const py::object keywords = complete ? py::object(given[2]) : py::object();
  const py::object result = complete ? py::object(given[3]) : py::object();
  end_module(py::object(given[0]).ptr(), CallArguments::of(args.ptr(), keywords.ptr()), result.ptr());
}

py::object make_module_call(std::shared_ptr<ModuleObserver> observer, const py::object& original,
                            const py::object& with_hooks) {
  const auto module = py::module_::import("torch.nn.modules.module");
  Tables global_tables;
  Tables own_tables;
  for (std::size_t i = 0; i < own_tables.size(); ++i) {
    global_tables[i] = py::dict(module.attr(kGlobalTables[i]));
    own_tables[i] = interned(kOwnTables[i]);
  }
  return py::reinterpret_steal<py::object>(
      create<ModuleCall>(module_call_type(), &call_module, std::move(observer), original, with_hooks,
                         std::move(global_tables), std::move(own_tables), interned("forward")));
}

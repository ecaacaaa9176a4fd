// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "interception.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <structmember.h>
#include <torch/csrc/PyInterpreter.h>

#include <cstddef>
#include <utility>

#include "../held.h"
#include "native_type.h"

namespace py = pybind11;

CallArguments CallArguments::of(PyObject* args, PyObject* keywords) {
  CallArguments arguments;
  arguments.values = &PyTuple_GET_ITEM(args, 0);
  arguments.positional = PyTuple_GET_SIZE(args);
  arguments.dict = keywords;
  return arguments;
}

PyObject* CallArguments::call(PyObject* callable) const {
  if (dict != nullptr) {
    return PyObject_VectorcallDict(callable, values, static_cast<std::size_t>(positional), dict);
  }
  return PyObject_Vectorcall(callable, values, static_cast<std::size_t>(positional), names);
}

namespace {

using Tls = at::impl::PythonTorchFunctionTLS;

// ---- FunctionMode

struct FunctionMode {
  PyObject_HEAD std::shared_ptr<CallObserver> observer;  // null: retired
  // What stands on torch's stack of modes; it owns the mode, so that a mode once pushed lives for ever.
  std::shared_ptr<c10::SafePyObject> entry = nullptr;
};

// Work of a process group holds the entries that were on the stack when it began, and lets go of them on a
// thread of the process group. Whoever is the last to let go of an entry needs the GIL; and a process group
// that goes, with the GIL, together with its DistributedDataParallel waits for that thread. So an entry is
// never let go of altogether.
void push(PyObject* self) {
  auto* mode = reinterpret_cast<FunctionMode*>(self);
  if (mode->entry == nullptr) {
    Py_INCREF(self);
    mode->entry = std::make_shared<c10::SafePyObject>(self, getPyInterpreter());
  }
  Tls::push_onto_stack(mode->entry);
}

// The function written in Python that the mode has let through last on this thread, while it runs.
thread_local PyObject* running_function = nullptr;

// A function written in Python asks once whether a mode is active, and then calls others. It gets its answer
// "no" for that one question, and the mode sees the others.
PyObject* call_with_mode(PyObject* self, PyObject* function, const CallArguments& arguments) {
  PyObject* outer = std::exchange(running_function, function);
  push(self);
  Tls::exchange_skip_next(true);
  PyObject* result = arguments.call(function);
  Tls::exchange_skip_next(false);
  const KeepPythonError no_error_of_ours;
  Tls::pop_stack();
  running_function = outer;
  return result;
}

// (function, types, args=(), kwargs=None); torch has taken the mode off its stack for the time of this call.
PyObject* torch_function(PyObject* self, PyObject* const* given, Py_ssize_t count) {
  if (count < 2 || count > 4) {
    PyErr_Format(PyExc_TypeError, "__torch_function__() takes 2 to 4 arguments, %zd given", count);
    return nullptr;
  }
  PyObject* function = given[0];
  PyObject* args = count > 2 ? given[2] : nullptr;
  CallArguments arguments;
  if (args != nullptr && PyTuple_Check(args) != 0) {
    arguments.values = &PyTuple_GET_ITEM(args, 0);
    arguments.positional = PyTuple_GET_SIZE(args);
  }
  if (count > 3 && given[3] != Py_None && PyDict_GET_SIZE(given[3]) > 0) arguments.dict = given[3];
  CallObserver* observer = reinterpret_cast<FunctionMode*>(self)->observer.get();
  if (observer == nullptr) return arguments.call(function);
  if (Api* api = observer->api_of(function)) return observer->observe(*api, function, arguments);
  // A method as Tensor.unflatten calls the one of the same name below it, which the mode is told of as of
  // Tensor.unflatten again, and so on without an end.
  if (PyFunction_Check(function) != 0 && function != running_function && !observer->is_inside_call())
    return call_with_mode(self, function, arguments);
  return arguments.call(function);
}

PyTypeObject* mode_type() {
  static PyMethodDef methods[] = {{"__torch_function__",
                                   reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(
                                       &torch_function)),  // the flag says its signature
                                   METH_FASTCALL, "Records a call and makes it."},
                                  {nullptr, nullptr, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(&destroy<FunctionMode>)},
                                {Py_tp_methods, methods},
                                {0, nullptr}};
  static PyType_Spec spec = {"msprobe._torch.FunctionMode", sizeof(FunctionMode), 0, Py_TPFLAGS_DEFAULT,
                             slots};
  static auto* type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (type == nullptr) throw py::error_already_set();
  return type;
}

// ---- Wrapper

struct Wrapper {
  PyObject_HEAD vectorcallfunc vectorcall;
  std::shared_ptr<CallObserver> observer;
  std::shared_ptr<Api> api;
  Held<> original;
};

PyObject* call_wrapper(PyObject* self, PyObject* const* values, std::size_t count, PyObject* names) {
  auto* wrapper = reinterpret_cast<Wrapper*>(self);
  CallArguments arguments;
  arguments.values = values;
  arguments.positional = PyVectorcall_NARGS(count);
  arguments.names = names;
  return wrapper->observer->observe(*wrapper->api, wrapper->original.ptr(), arguments);
}

// As a function: found on a class, it becomes a method of the instance.
PyObject* bind_wrapper(PyObject* self, PyObject* instance, PyObject*) {
  if (instance == nullptr || instance == Py_None) {
    Py_INCREF(self);
    return self;
  }
  return PyMethod_New(self, instance);
}

// Names, documentation and signature are those of what is wrapped.
PyObject* attribute_of_wrapper(PyObject* self, PyObject* name) {
  PyObject* found = PyObject_GenericGetAttr(self, name);
  if (found != nullptr || PyErr_ExceptionMatches(PyExc_AttributeError) == 0) return found;
  PyErr_Clear();
  return PyObject_GetAttr(reinterpret_cast<Wrapper*>(self)->original.ptr(), name);
}

// It passes for what it wraps in tables of functions, such as those of torch.overrides.
Py_hash_t hash_of_wrapper(PyObject* self) {
  return PyObject_Hash(reinterpret_cast<Wrapper*>(self)->original.ptr());
}

PyObject* compare_wrapper(PyObject* self, PyObject* other, int operation) {
  return PyObject_RichCompare(
      reinterpret_cast<Wrapper*>(self)->original.ptr(),
      Py_TYPE(other) == Py_TYPE(self) ? reinterpret_cast<Wrapper*>(other)->original.ptr() : other, operation);
}

PyTypeObject* wrapper_type() {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(Wrapper, vectorcall), READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(&destroy<Wrapper>)},
                                {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
                                {Py_tp_descr_get, reinterpret_cast<void*>(&bind_wrapper)},
                                {Py_tp_getattro, reinterpret_cast<void*>(&attribute_of_wrapper)},
                                {Py_tp_members, members},
                                {Py_tp_hash, reinterpret_cast<void*>(&hash_of_wrapper)},
                                {Py_tp_richcompare, reinterpret_cast<void*>(&compare_wrapper)},
                                {0, nullptr}};
  static PyType_Spec spec = {"msprobe._torch.Wrapper", sizeof(Wrapper), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
                             slots};
  static auto* type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (type == nullptr) throw py::error_already_set();
  return type;
}

}  // namespace

py::object make_function_mode(std::shared_ptr<CallObserver> observer) {
  return py::reinterpret_steal<py::object>(create<FunctionMode>(mode_type(), std::move(observer)));
}

void push_function_mode(const py::object& mode) { push(mode.ptr()); }

void retire_function_mode(const py::object& mode) {
  reinterpret_cast<FunctionMode*>(mode.ptr())->observer.reset();
}

py::object make_wrapper(std::shared_ptr<CallObserver> observer, std::shared_ptr<Api> api,
                        const py::object& original) {
  return py::reinterpret_steal<py::object>(
      create<Wrapper>(wrapper_type(), &call_wrapper, std::move(observer), std::move(api), original));
}

void set_class_attributes(const py::type& owner, const py::dict& values, const py::list& removed) {
  auto* type = reinterpret_cast<PyTypeObject*>(owner.ptr());
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) throw py::type_error("expected a class made in Python");
  for (const auto& [name, value] : values) {
    if (PyDict_SetItem(type->tp_dict, name.ptr(), value.ptr()) != 0) throw py::error_already_set();
  }
  for (const auto& name : removed) {
    if (PyDict_DelItem(type->tp_dict, name.ptr()) == 0) continue;
    if (PyErr_ExceptionMatches(PyExc_KeyError) == 0) throw py::error_already_set();
    PyErr_Clear();
  }
  PyType_Modified(type);
}

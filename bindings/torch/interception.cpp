// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "interception.h"

#include <structmember.h>

#include <cstddef>
#include <utility>

#include "../held.h"
#include "graph_capture.h"
#include "msprobe/torch_versions.h"
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
  if (captures_graph()) return arguments.call(wrapper->original.ptr());
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

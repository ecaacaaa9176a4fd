// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "function_mode.h"

#include <torch/csrc/PyInterpreter.h>

#include <algorithm>
#include <utility>

#include "graph_capture.h"
#include "msprobe/torch_versions.h"
#include "native_type.h"

namespace py = pybind11;

namespace {

using Tls = at::impl::PythonTorchFunctionTLS;
using msprobe::torch_adapter::skip_next_question;
using Entry = std::shared_ptr<c10::SafePyObject>;
using Entries = c10::SmallVector<Entry, 2>;

struct FunctionMode {
  PyObject_HEAD std::shared_ptr<CallObserver> observer;  // null: retired
  bool is_on = false;
  // What stands on torch's stack; it owns the mode, so that a mode once pushed lives for ever.
  Entry entry = nullptr;
};

PyTypeObject* mode_type();

FunctionMode* mode_of(const Entry& entry) {
  PyObject* object = entry->ptr(getPyInterpreter());
  return Py_TYPE(object) == mode_type() ? reinterpret_cast<FunctionMode*>(object) : nullptr;
}

FunctionMode* mode_of(const py::object& mode) { return reinterpret_cast<FunctionMode*>(mode.ptr()); }

// ---- the stack of this thread

// Takes off those of our modes that `is_meant(mode)`; what is left keeps its order.
template <typename IsMeant>
Entries take(IsMeant is_meant) {
  Entries taken;
  const std::int64_t size = Tls::stack_len();
  std::int64_t lowest = size;  // of those meant
  for (std::int64_t i = size; i-- > 0;) {
    const FunctionMode* mode = mode_of(Tls::get_stack_at(i));
    if (mode != nullptr && is_meant(*mode)) lowest = i;
  }
  Entries above;
  for (std::int64_t i = size; i-- > lowest;) {
    Entry entry = Tls::pop_stack();
    const FunctionMode* mode = mode_of(entry);
    (mode != nullptr && is_meant(*mode) ? taken : above).push_back(std::move(entry));
  }
  for (auto entry = above.rbegin(); entry != above.rend(); ++entry) Tls::push_onto_stack(std::move(*entry));
  return taken;
}

bool is_on_stack(const FunctionMode* mode) {
  for (std::int64_t i = 0; i < Tls::stack_len(); ++i) {
    if (mode_of(Tls::get_stack_at(i)) == mode) return true;
  }
  return false;
}

// Below all others.
void put(const Entry& entry) {
  if (is_on_stack(mode_of(entry))) return;
  Entries above;
  while (Tls::stack_len() > 0) above.push_back(Tls::pop_stack());
  Tls::push_onto_stack(entry);
  for (auto other = above.rbegin(); other != above.rend(); ++other) Tls::push_onto_stack(std::move(*other));
}

// ---- a call

// Where torch cannot be told to pass over one question, the same code is run with another function
// in the place of those that it asks. The globals are copied each time, as they may change. Nothing, without
// a Python error: there is no such copy.
py::object without_questions(PyObject* function) {
  static PyMethodDef answer = {"has_torch_function",
                               reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(
                                   +[](PyObject*, PyObject* const*, Py_ssize_t) { Py_RETURN_FALSE; })),
                               METH_FASTCALL, nullptr};
  const auto make = [&]() -> py::object {
    const auto globals = py::reinterpret_steal<py::dict>(PyDict_Copy(PyFunction_GET_GLOBALS(function)));
    if (!globals) throw py::error_already_set();
    const py::object no = py::reinterpret_steal<py::object>(PyCFunction_New(&answer, nullptr));
    for (const char* question :
         {"has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"}) {
      if (globals.contains(question)) globals[question] = no;
    }
    auto copy =
        py::reinterpret_steal<py::object>(PyFunction_New(PyFunction_GET_CODE(function), globals.ptr()));
    if (!copy) throw py::error_already_set();
    for (const char* part : {"__defaults__", "__kwdefaults__"}) {
      copy.attr(part) = py::handle(function).attr(part);
    }
    PyObject* const closure = PyFunction_GET_CLOSURE(function);
    if (PyFunction_SetClosure(copy.ptr(), closure != nullptr ? closure : Py_None) != 0) {
      throw py::error_already_set();
    }
    return copy;
  };
  try {
    return make();
  } catch (const py::error_already_set&) {
    return {};
  }
}

// Calls a function written in Python, which asks once whether a mode is active; the answer is "no".
PyObject* call_unasked(PyObject* function, const CallArguments& arguments) {
  if (skip_next_question(true)) {
    PyObject* result = arguments.call(function);
    skip_next_question(false);
    return result;
  }
  const py::object copy = without_questions(function);
  return arguments.call(copy ? copy.ptr() : function);
}

// The function written in Python that the mode has let through last on this thread, while it runs.
thread_local PyObject* running_function = nullptr;

// A function written in Python asks once whether a mode is active, and then calls others. It gets its answer
// "no" for that one question, and the mode sees the others.
PyObject* call_with_mode(FunctionMode* self, PyObject* function, const CallArguments& arguments) {
  PyObject* outer = std::exchange(running_function, function);
  put(self->entry);
  PyObject* result = call_unasked(function, arguments);
  const KeepPythonError no_error_of_ours;
  take([&](const FunctionMode& mode) { return &mode == self; });
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
  auto* mode = reinterpret_cast<FunctionMode*>(self);
  CallObserver* observer = mode->observer.get();
  if (observer == nullptr || !mode->is_on || captures_graph()) return arguments.call(function);
  if (Api* api = observer->api_of(function)) return observer->observe(*api, function, arguments);
  // A method as Tensor.unflatten calls the one of the same name below it, which the mode is told of as of
  // Tensor.unflatten again, and so on without an end.
  if (PyFunction_Check(function) != 0 && function != running_function && !observer->is_inside_call())
    return call_with_mode(mode, function, arguments);
  return arguments.call(function);
}

PyTypeObject* make_mode_type() {
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
  auto* type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (type == nullptr) throw py::error_already_set();
  return type;
}

PyTypeObject* mode_type() {
  static PyTypeObject* const type = make_mode_type();
  return type;
}

// NoModes for `with`.
class NoModesContext {
 public:
  void enter() { modes_.emplace_back(std::make_unique<NoModes>()); }
  void exit(const py::args&) { modes_.pop_back(); }

 private:
  std::vector<std::unique_ptr<NoModes>> modes_;
};

}  // namespace

// Work of a process group holds the entries that were on the stack when it began, and lets go of them on a
// thread of the process group. Whoever is the last to let go of an entry needs the GIL; and a process group
// that goes, with the GIL, together with its DistributedDataParallel waits for that thread. So an entry is
// never let go of altogether.
void push_function_mode(const py::object& mode) {
  FunctionMode* self = mode_of(mode);
  if (self->entry == nullptr) {
    Py_INCREF(mode.ptr());
    self->entry = std::make_shared<c10::SafePyObject>(mode.ptr(), getPyInterpreter());
  }
  self->is_on = true;
  put(self->entry);
}

void remove_function_mode(const py::object& mode) {
  mode_of(mode)->is_on = false;
  take([](const FunctionMode& one) { return !one.is_on; });
}

void retire_function_mode(const py::object& mode) {
  remove_function_mode(mode);
  mode_of(mode)->observer.reset();
}

py::object make_function_mode(std::shared_ptr<CallObserver> observer) {
  return py::reinterpret_steal<py::object>(create<FunctionMode>(mode_type(), std::move(observer)));
}

ModeOff::ModeOff() {
  if (Tls::stack_len() > 0) taken_ = take([](const FunctionMode&) { return true; });
}

ModeOff::ModeOff(const std::vector<Held<>>& modes) {
  if (Tls::stack_len() == 0) return;
  taken_ = take([&](const FunctionMode& mode) {
    return std::any_of(modes.begin(), modes.end(), [&](const py::object& one) {
      return one.ptr() == reinterpret_cast<const PyObject*>(&mode);
    });
  });
}

ModeOff::~ModeOff() {
  for (const Entry& entry : taken_) {
    if (mode_of(entry)->is_on) put(entry);
  }
}

NoModes::NoModes() : functions_(Tls::get_state()), operators_(c10::impl::TorchDispatchModeTLS::get_state()) {
  Tls::set_state({});
  Tls::set_disabled_state(at::impl::TorchFunctionDisabledState::ALL_DISABLED);
  c10::impl::TorchDispatchModeTLS::set_state({});
}

NoModes::~NoModes() {
  const Entries come = take([](const FunctionMode& mode) { return mode.is_on; });
  Tls::set_state(functions_);
  c10::impl::TorchDispatchModeTLS::set_state(std::move(operators_));
  take([](const FunctionMode& mode) { return !mode.is_on; });
  for (const Entry& entry : come) put(entry);
}

void register_function_mode(py::module_& m) {
  m.def("remove_mode", &remove_function_mode, py::arg("mode"));
  py::class_<NoModesContext>(m, "NoModes", py::is_final())
      .def(py::init<>())
      .def("__enter__", &NoModesContext::enter)
      .def("__exit__", &NoModesContext::exit);
}

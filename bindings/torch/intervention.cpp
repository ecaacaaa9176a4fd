// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "intervention.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <structmember.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "../held.h"
#include "../python_text.h"
#include "changed_arguments.h"
#include "compiled_backward.h"
#include "function_mode.h"
#include "inside_call.h"
#include "msprobe/log.h"
#include "msprobe/torch_perturb.h"
#include "native_type.h"

namespace py = pybind11;

std::string Call::name() const {
  std::string name(api_);
  const std::string number = std::to_string(number_);
  return of_module_ ? name.append(".forward.").append(number)
                    : name.append(1, '.').append(number).append(".forward");
}

// ---- in place of a module's forward

namespace {

struct Forward {
  PyObject_HEAD vectorcallfunc vectorcall;
  std::shared_ptr<FunctionInterventions> session;
  std::string name;
  Held<> original;
};

PyObject* call_forward(PyObject* self, PyObject* const* values, std::size_t count, PyObject* names) {
  const auto* forward = reinterpret_cast<Forward*>(self);
  CallArguments arguments;
  arguments.values = values;
  arguments.positional = PyVectorcall_NARGS(count);
  arguments.names = names;
  return forward->session->answer_forward(forward->name, forward->original.ptr(), arguments);
}

// Name, documentation and signature are those of what it stands for.
PyObject* attribute_of_forward(PyObject* self, PyObject* name) {
  PyObject* found = PyObject_GenericGetAttr(self, name);
  if (found != nullptr || PyErr_ExceptionMatches(PyExc_AttributeError) == 0) return found;
  PyErr_Clear();
  return PyObject_GetAttr(reinterpret_cast<Forward*>(self)->original.ptr(), name);
}

PyTypeObject* type_of_forward() {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(Forward, vectorcall), READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr}};
  PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(&destroy<Forward>)},
                         {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
                         {Py_tp_members, members},
                         {Py_tp_getattro, reinterpret_cast<void*>(&attribute_of_forward)},
                         {0, nullptr}};
  PyType_Spec spec = {"msprobe._torch.Forward", sizeof(Forward), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, slots};
  auto* type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (type == nullptr) throw py::error_already_set();
  return type;
}

}  // namespace

// ---- the observer

void FunctionInterventions::begin_step() {
  functions_.begin_step();
  module_calls_.clear();
}

void FunctionInterventions::end() {
  active_ = false;
  intervener_.reset();
  for (const py::object& mode : modes_) retire_function_mode(mode);
  modes_.clear();
}

py::object FunctionInterventions::wrapper(const py::object& original, const std::string& name,
                                          bool distributed) {
  return make_wrapper(shared_from_this(), functions_.add(name, distributed), original);
}

py::object FunctionInterventions::function_mode() { return make_function_mode(shared_from_this()); }

void FunctionInterventions::push_mode(const py::object& mode) {
  const auto is_it = [&](const py::object& known) { return known.is(mode); };
  if (std::none_of(modes_.begin(), modes_.end(), is_it)) modes_.push_back(mode);
  push_function_mode(mode);
}

py::object FunctionInterventions::make_forward(const py::object& forward, const std::string& name) {
  static PyTypeObject* const type = type_of_forward();
  return py::reinterpret_steal<py::object>(
      create<Forward>(type, &call_forward, shared_from_this(), name, forward));
}

PyObject* FunctionInterventions::answer_forward(const std::string& name, PyObject* forward,
                                                const CallArguments& arguments) {
  if (!active_) return arguments.call(forward);
  const std::int64_t number = module_calls_[name]++;
  return answer(Call(name, number, true, forward, arguments));
}

PyObject* FunctionInterventions::answer(const Call& call) const {
  const std::shared_ptr<Intervener> intervener = intervener_;  // the call may set another one
  return intervener ? intervener->answer(call) : call.make();
}

Api* FunctionInterventions::api_of(PyObject* function) {
  try {
    return functions_.find(function);
  } catch (const std::exception&) {  // the name of an unlisted function: it stays without one
    PyErr_Clear();
    return nullptr;
  }
}

bool FunctionInterventions::is_inside_call() const { return InsideCall::is_so() || in_compiled_backward(); }

PyObject* FunctionInterventions::observe(Api& api, PyObject* callable, const CallArguments& arguments) {
  if (!active_ || is_inside_call()) return arguments.call(callable);
  const InsideCall inside;
  const std::int64_t number = functions_.number_call(api);
  const ModeOff mode_off(modes_);  // what the function calls need not come by
  return answer(Call(api.name, number, false, callable, arguments));
}

// ---- rounding

PyObject* RoundOtherwise::answer(const Call& call) {
  PyObject* result = call.make();
  if (result == nullptr || call.of_module()) return result;
  const KeepPythonError no_error_of_ours;
  try {
    round(call, result);
  } catch (const std::exception& error) {
    if (!std::exchange(has_failed_, true)) {
      const std::string what = error_text(error);
      msprobe::log(msprobe::LogLevel::kWarning,
                   "intervention: " + call.name() +
                       " is left as it is (and others, it may be): " + what.substr(0, what.find('\n')));
    }
  }
  return result;
}

void RoundOtherwise::round(const Call& call, PyObject* result) {
  if (msprobe::perturb::arithmetic_of(call.api()) == msprobe::perturb::Arithmetic::kNone) return;
  for (const at::Tensor& tensor : tensors_of(result)) {
    if (tensor.numel() == 0 || !msprobe::torch_adapter::why_unperturbable(tensor).empty()) continue;
    const at::Tensor other =
        msprobe::torch_adapter::with_random_ulps(tensor.detach(), seed_ ^ (0x9E3779B97F4A7C15U * ++calls_));
    const at::AutoDispatchBelowADInplaceOrView below_autograd;  // and no version counts it
    tensor.copy_(other);
  }
}

void register_intervention(py::module_& m) {
  py::class_<Intervener, std::shared_ptr<Intervener>>(m, "Intervener");
  py::class_<RoundOtherwise, Intervener, std::shared_ptr<RoundOtherwise>>(m, "RoundOtherwise", py::is_final())
      .def(py::init<std::uint64_t>(), py::kw_only(), py::arg("seed"));
  py::class_<FunctionInterventions, std::shared_ptr<FunctionInterventions>>(m, "FunctionInterventions",
                                                                            py::is_final())
      .def(py::init<bool>(), py::kw_only(), py::arg("all_functions") = false)
      .def("set_intervener", &FunctionInterventions::set_intervener, py::arg("intervener").none(true))
      .def("set_active", &FunctionInterventions::set_active, py::arg("active"))
      .def("begin_step", &FunctionInterventions::begin_step)
      .def("end", &FunctionInterventions::end)
      .def("observe_function", &FunctionInterventions::observe_function, py::arg("function"), py::arg("name"))
      .def("wrapper", &FunctionInterventions::wrapper, py::arg("original"), py::arg("name"),
           py::arg("distributed") = false)
      .def("function_mode", &FunctionInterventions::function_mode)
      .def("push_mode", &FunctionInterventions::push_mode, py::arg("mode"))
      .def("make_forward", &FunctionInterventions::make_forward, py::arg("forward"), py::arg("name"));
}

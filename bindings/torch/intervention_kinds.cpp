// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// The interveners that Python makes, by their kind, and the sessions that they work in.

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <pybind11/stl.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "../held.h"
#include "../python_text.h"
#include "changed_arguments.h"
#include "intervention.h"
#include "msprobe/error.h"
#include "msprobe/log.h"
#include "msprobe/torch_perturb.h"
#include "native_type.h"
#include "repetition.h"

namespace py = pybind11;

namespace {

// Notes that an intervener could not do its work, once for each.
class Faults {
 public:
  // Takes the Python error that is set.
  void take(const Call& call) {
    const py::error_already_set error;
    note(call, error_text(error));
  }
  void note(const Call& call, std::string_view what) {
    if (std::exchange(noted_, true)) return;
    msprobe::log(msprobe::LogLevel::kWarning, "intervention: " + call.name() +
                                                  " is left as it is (and others, it may be): " +
                                                  std::string(what.substr(0, what.find('\n'))));
  }

 private:
  bool noted_ = false;
};

py::tuple positional_of(const CallArguments& arguments) {
  py::tuple values(static_cast<std::size_t>(arguments.positional));
  for (Py_ssize_t i = 0; i < arguments.positional; ++i) {
    values[static_cast<std::size_t>(i)] = py::reinterpret_borrow<py::object>(arguments.values[i]);
  }
  return values;
}

py::dict keywords_of(const CallArguments& arguments) {
  py::dict keywords;
  arguments.for_each_keyword(
      [&](PyObject* key, PyObject* value) { keywords[py::handle(key)] = py::handle(value); });
  return keywords;
}

// Arguments that a function of Python gave.
struct Given {
  Held<py::tuple> positional;
  Held<py::dict> keywords;

  CallArguments view() const {
    CallArguments arguments;
    arguments.values = &PyTuple_GET_ITEM(positional.ptr(), 0);
    arguments.positional = PyTuple_GET_SIZE(positional.ptr());
    if (!keywords.empty()) arguments.dict = keywords.ptr();
    return arguments;
  }
};

// The result of function(name, result, args, kwargs) in place of the call's; None keeps that.
class ReplaceResult : public Intervener {
 public:
  explicit ReplaceResult(py::object function) : function_(std::move(function)) {}

  PyObject* answer(const Call& call) override {
    PyObject* result = call.make();
    if (result == nullptr) return nullptr;
    const KeepPythonError no_error_of_ours;
    const CallArguments& arguments = call.arguments();
    try {
      py::object other =
          function_(call.name(), py::handle(result), positional_of(arguments), keywords_of(arguments));
      if (other.is_none()) return result;
      Py_DECREF(result);
      return other.release().ptr();
    } catch (const std::exception& error) {
      faults_.note(call, error_text(error));
    }
    return result;
  }

 private:
  Held<> function_;
  Faults faults_;
};

// The call is made with the (args, kwargs) that function(name, args, kwargs) gives; None keeps them.
class ChangeArguments : public Intervener {
 public:
  explicit ChangeArguments(py::object function) : function_(std::move(function)) {}

  PyObject* answer(const Call& call) override {
    std::optional<Given> given;
    try {
      const CallArguments& arguments = call.arguments();
      const py::object other = function_(call.name(), positional_of(arguments), keywords_of(arguments));
      if (!other.is_none()) {
        auto [positional, keywords] = other.cast<std::pair<py::tuple, py::dict>>();
        given.emplace(Given{std::move(positional), std::move(keywords)});
      }
    } catch (const std::exception& error) {
      faults_.note(call, error_text(error));
    }
    return given ? call.make(given->view()) : call.make();
  }

 private:
  Held<> function_;
  Faults faults_;
};

// The call is made a second time, as Repetition does, with the tensors that change(name, tensor) gives in
// place of those of its arguments (None keeps one); compare(name, result, other) gets both results. Without
// functions it is the bare cost of calling twice.
class CallTwice : public Intervener {
 public:
  CallTwice(py::object change, py::object compare)
      : change_(std::move(change)), compare_(std::move(compare)) {}

  PyObject* answer(const Call& call) override {
    std::optional<Repetition> repetition;
    try {
      repetition.emplace(call);
    } catch (const std::exception& error) {
      faults_.note(call, error_text(error));
    }
    PyObject* result = call.make();
    if (result == nullptr || !repetition) return result;
    const KeepPythonError no_error_of_ours;
    try {
      again(call, *repetition, result);
    } catch (const std::exception& error) {
      faults_.note(call, error_text(error));
    }
    if (PyErr_Occurred() != nullptr) PyErr_Clear();
    return result;
  }

 private:
  void again(const Call& call, Repetition& repetition, PyObject* result) {
    if (repetition.check(result) != Repetition::Verdict::kCan) return;
    Repetition::Way way;
    if (!change_.is_none()) {
      way.replace = [&](PyObject* value) -> py::object {
        if (!THPVariable_Check(value)) return {};
        py::object other = change_(call.name(), python_tensor(repetition.before(value)));
        return other.is_none() ? py::object() : other;
      };
    }
    const py::object other = repetition.again(way);
    if (!other) return faults_.take(call);
    if (!compare_.is_none()) compare_(call.name(), py::handle(result), other);
  }

  Held<> change_;
  Held<> compare_;
  Faults faults_;
};

// Floating-point tensors of the arguments have another dtype or device, under autograd; those of the result
// are what the call would have given.
class Precision : public Intervener {
 public:
  Precision(std::optional<at::ScalarType> dtype, std::optional<at::Device> device)
      : dtype_(dtype), device_(device) {}

  PyObject* answer(const Call& call) override {
    std::optional<OwnedArguments> arguments;
    at::TensorOptions before;
    try {
      bool any = false;
      arguments.emplace(call.arguments(), [&](PyObject* value) -> py::object {
        if (!THPVariable_Check(value)) return {};
        const at::Tensor& tensor = THPVariable_Unpack(value);
        if (!at::isFloatingType(tensor.scalar_type())) {
          return device_ ? python_tensor(tensor.to(*device_)) : py::object();
        }
        if (!std::exchange(any, true)) before = tensor.options();
        return python_tensor(
            tensor.to(device_.value_or(tensor.device()), dtype_.value_or(tensor.scalar_type())));
      });
      if (!any) arguments.reset();
    } catch (const std::exception& error) {
      arguments.reset();
      faults_.note(call, error_text(error));
    }
    if (!arguments) return call.make();
    PyObject* result = call.make(arguments->view());
    if (result == nullptr) return nullptr;
    const KeepPythonError no_error_of_ours;
    try {
      py::tuple one = py::make_tuple(py::reinterpret_steal<py::object>(result));
      CallArguments results;
      results.values = &PyTuple_GET_ITEM(one.ptr(), 0);
      results.positional = 1;
      OwnedArguments back(results, [&](PyObject* value) -> py::object {
        if (!THPVariable_Check(value)) return {};
        const at::Tensor& tensor = THPVariable_Unpack(value);
        if (!at::isFloatingType(tensor.scalar_type())) {
          return device_ ? python_tensor(tensor.to(before.device())) : py::object();
        }
        return python_tensor(tensor.to(before.device(), c10::typeMetaToScalarType(before.dtype())));
      });
      return back.positional().front().release().ptr();
    } catch (const std::exception& error) {
      faults_.note(call, error_text(error));
    }
    Py_INCREF(result);
    return result;
  }

 private:
  std::optional<at::ScalarType> dtype_;
  std::optional<at::Device> device_;
  Faults faults_;
};

// What is computed is rounded otherwise, as another device or kernel does: each floating-point result is off
// by a unit in the last place, up or down at random. It is written into the result itself: the graph, and
// what it saved, stay as they are.
class RoundOtherwise : public Intervener {
 public:
  explicit RoundOtherwise(std::uint64_t seed) : seed_(seed) {}

  PyObject* answer(const Call& call) override {
    PyObject* result = call.make();
    if (result == nullptr || call.of_module()) return result;
    const KeepPythonError no_error_of_ours;
    try {
      if (msprobe::perturb::arithmetic_of(call.api()) == msprobe::perturb::Arithmetic::kNone) return result;
      for (const at::Tensor& tensor : tensors_of(result)) {
        if (tensor.numel() == 0 || !msprobe::torch_adapter::why_unperturbable(tensor).empty()) continue;
        const at::Tensor other = msprobe::torch_adapter::with_random_ulps(
            tensor.detach(), seed_ ^ (0x9E3779B97F4A7C15U * ++calls_));
        const at::AutoDispatchBelowADInplaceOrView below_autograd;  // and no version counts it
        tensor.copy_(other);
      }
    } catch (const std::exception& error) {
      faults_.note(call, error_text(error));
    }
    return result;
  }

 private:
  std::uint64_t seed_;
  std::uint64_t calls_ = 0;
  Faults faults_;
};

// ---- the table of kinds

py::object taken(py::dict& settings, const char* key) {
  if (!settings.contains(key)) return py::none();
  return settings.attr("pop")(key);
}

py::object function_of(py::dict& settings, const char* kind) {
  py::object function = taken(settings, "function");
  if (PyCallable_Check(function.ptr()) == 0) {
    throw msprobe::InvalidArgument(std::string(kind) + ": expected a callable as `function`");
  }
  return function;
}

std::shared_ptr<Intervener> make_precision(py::dict& settings) {
  std::optional<at::ScalarType> dtype;
  std::optional<at::Device> device;
  if (const py::object given = taken(settings, "dtype"); !given.is_none()) {
    if (!THPDtype_Check(given.ptr())) throw msprobe::InvalidArgument("precision: expected a torch.dtype");
    dtype = reinterpret_cast<THPDtype*>(given.ptr())->scalar_type;
  }
  if (const py::object given = taken(settings, "device"); !given.is_none()) {
    device = at::Device(py::str(given).cast<std::string>());
  }
  return std::make_shared<Precision>(dtype, device);
}

struct Kind {
  std::string_view name;
  std::shared_ptr<Intervener> (*make)(py::dict& settings);
};

constexpr std::array kKinds{
    Kind{"replace_result",
         [](py::dict& settings) -> std::shared_ptr<Intervener> {
           return std::make_shared<ReplaceResult>(function_of(settings, "replace_result"));
         }},
    Kind{"change_arguments",
         [](py::dict& settings) -> std::shared_ptr<Intervener> {
           return std::make_shared<ChangeArguments>(function_of(settings, "change_arguments"));
         }},
    Kind{"call_twice",
         [](py::dict& settings) -> std::shared_ptr<Intervener> {
           py::object change = taken(settings, "change");
           return std::make_shared<CallTwice>(std::move(change), taken(settings, "compare"));
         }},
    Kind{"precision", &make_precision},
    Kind{"round_otherwise",
         [](py::dict& settings) -> std::shared_ptr<Intervener> {
           const py::object seed = taken(settings, "seed");
           return std::make_shared<RoundOtherwise>(seed.is_none() ? 0 : seed.cast<std::uint64_t>());
         }},
};

std::shared_ptr<Intervener> make_intervener(const std::string& kind, const py::kwargs& given) {
  std::string known;
  for (const Kind& one : kKinds) {
    known += (known.empty() ? "" : ", ") + std::string(one.name);
    if (one.name != kind) continue;
    py::dict settings(given);
    std::shared_ptr<Intervener> made = one.make(settings);
    for (const auto& [key, value] : settings) {
      throw msprobe::InvalidArgument(kind + ": unknown setting " + py::repr(key).cast<std::string>());
    }
    return made;
  }
  throw msprobe::InvalidArgument("intervener: found the kind \"" + kind + "\", expected one of " + known);
}

void add_rule(Interventions& interventions, std::shared_ptr<Intervener> intervener,
              std::vector<std::string> calls, std::int64_t first, std::int64_t last) {
  interventions.add({std::move(calls), first, last}, std::move(intervener));
}

}  // namespace

void register_intervention(py::module_& m) {
  py::class_<Intervener, std::shared_ptr<Intervener>>(m, "Intervener");
  m.def("intervener", &make_intervener, py::arg("kind"));
  py::class_<Interventions, std::shared_ptr<Interventions>>(m, "Interventions", py::is_final())
      .def(py::init<>())
      .def("add", &add_rule, py::arg("intervener"), py::kw_only(),
           py::arg("calls") = std::vector<std::string>(), py::arg("first") = 0, py::arg("last") = -1)
      .def("clear", &Interventions::clear);
  py::class_<FunctionInterventions, std::shared_ptr<FunctionInterventions>>(m, "FunctionInterventions",
                                                                            py::is_final())
      .def(py::init<bool>(), py::kw_only(), py::arg("all_functions") = false)
      .def_property_readonly("interventions", &FunctionInterventions::interventions)
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

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "intervention.h"

#include <structmember.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "../held.h"
#include "compiled_backward.h"
#include "function_mode.h"
#include "inside_call.h"
#include "native_type.h"

namespace py = pybind11;

std::string Call::name() const {
  std::string name(api_);
  const std::string number = std::to_string(number_);
  return of_module_ ? name.append(".forward.").append(number)
                    : name.append(1, '.').append(number).append(".forward");
}

PyObject* Call::make(const CallArguments& arguments) const {
  if (rules_ != nullptr) return rules_->answer_from(next_rule_, *this, arguments);
  return arguments.call(callable_);
}

bool Selection::names(const Call& call) const {
  if (call.number() < first || (last >= 0 && call.number() > last)) return false;
  if (calls.empty()) return true;
  const auto is_it = [&](const std::string& name) {
    return name == call.api() || (name.starts_with(call.api()) && name == call.name());
  };
  return std::any_of(calls.begin(), calls.end(), is_it);
}

void Interventions::add(Selection selection, std::shared_ptr<Intervener> intervener) {
  rules_.push_back({std::move(selection), std::move(intervener)});
}

PyObject* Interventions::answer(Call call) const {
  call.rules_ = this;
  call.next_rule_ = 0;
  return answer_from(0, call, call.arguments());
}

PyObject* Interventions::answer_from(std::size_t rule, const Call& call,
                                     const CallArguments& arguments) const {
  while (rule < rules_.size() && !rules_[rule].selection.names(call)) ++rule;
  if (rule >= rules_.size()) return arguments.call(call.callable());
  Call next = call;
  next.arguments_ = &arguments;
  next.next_rule_ = rule + 1;
  const std::shared_ptr<Intervener> intervener = rules_[rule].intervener;  // it may change the rules
  return intervener->answer(next);
}

// ---- between functions and an observer

namespace {

// What an observer calls in place of the function: the rules make the call.
struct Answer {
  PyObject_HEAD vectorcallfunc vectorcall;
  std::shared_ptr<Interventions> interventions;
  const Api* api;
  std::int64_t number;
  PyObject* callable;  // borrowed: an observer calls this once, before it returns
};

PyObject* call_answer(PyObject* self, PyObject* const* values, std::size_t count, PyObject* names) {
  const auto* answer = reinterpret_cast<Answer*>(self);
  CallArguments arguments;
  arguments.values = values;
  arguments.positional = PyVectorcall_NARGS(count);
  arguments.names = names;
  return answer->interventions->answer(
      Call(answer->api->name, answer->number, false, answer->callable, arguments));
}

template <typename Object>
PyTypeObject* callable_type(const char* name, PyType_Slot* more) {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(Object, vectorcall), READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr}};
  std::vector<PyType_Slot> slots = {{Py_tp_dealloc, reinterpret_cast<void*>(&destroy<Object>)},
                                    {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
                                    {Py_tp_members, members}};
  for (; more != nullptr && more->slot != 0; ++more) slots.push_back(*more);
  slots.push_back({0, nullptr});
  PyType_Spec spec = {name, sizeof(Object), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, slots.data()};
  auto* type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (type == nullptr) throw py::error_already_set();
  return type;
}

class InterveningObserver : public CallObserver {
 public:
  InterveningObserver(std::shared_ptr<CallObserver> inner, std::shared_ptr<Interventions> interventions)
      : inner_(std::move(inner)), interventions_(std::move(interventions)) {}

  Api* api_of(PyObject* function) override { return inner_->api_of(function); }
  bool is_inside_call() const override { return inner_->is_inside_call(); }

  PyObject* observe(Api& api, PyObject* callable, const CallArguments& arguments) override {
    static PyTypeObject* const type = callable_type<Answer>("msprobe._torch.Answer", nullptr);
    if (interventions_->empty() || inner_->is_inside_call()) return inner_->observe(api, callable, arguments);
    PyObject* answer = create<Answer>(type, &call_answer, interventions_, &api, api.count, callable);
    PyObject* result = inner_->observe(api, answer, arguments);
    Py_DECREF(answer);
    return result;
  }

 private:
  std::shared_ptr<CallObserver> inner_;
  std::shared_ptr<Interventions> interventions_;
};

// ---- in place of a module's forward

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

}  // namespace

std::shared_ptr<CallObserver> with_interventions(std::shared_ptr<CallObserver> inner,
                                                 std::shared_ptr<Interventions> interventions) {
  return std::make_shared<InterveningObserver>(std::move(inner), std::move(interventions));
}

// ---- a session without a recorder

void FunctionInterventions::begin_step() {
  functions_.begin_step();
  module_calls_.clear();
}

void FunctionInterventions::end() {
  active_ = false;
  interventions_->clear();
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
  static PyType_Slot slots[] = {{Py_tp_getattro, reinterpret_cast<void*>(&attribute_of_forward)},
                                {0, nullptr}};
  static PyTypeObject* const type = callable_type<Forward>("msprobe._torch.Forward", slots);
  return py::reinterpret_steal<py::object>(
      create<Forward>(type, &call_forward, shared_from_this(), name, forward));
}

PyObject* FunctionInterventions::answer_forward(const std::string& name, PyObject* forward,
                                                const CallArguments& arguments) {
  if (!active_) return arguments.call(forward);
  const std::int64_t number = module_calls_[name]++;
  return interventions_->answer(Call(name, number, true, forward, arguments));
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
  return interventions_->answer(Call(api.name, number, false, callable, arguments));
}

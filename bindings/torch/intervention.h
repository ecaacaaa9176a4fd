// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Calls that are answered instead of only seen: an *observer* (interception.h) tells what a call was given
/// and gave, an *intervener* decides what comes of it.
///
///     Interventions       a list of rules: which calls, and the intervener that answers them. The first rule
///                         that names a call answers it; when it makes the call, the next rule that names it
///                         does, and at the end the function itself.
///     an Intervener       replaces the result, changes the arguments, calls twice, calls in another
///                         precision (intervention_kinds.cpp: those that Python makes), or whatever else it
///                         likes
///     with_interventions  puts a list between functions and an observer: a dump then records what the rules
///                         made of a call. What it records without them does not pass through any of this.
///     FunctionInterventions an observer of its own, for when nothing is recorded
///
/// Functions arrive by the same mode and wrappers as in a dump. Modules are answered at their `forward`
/// (make_forward): hooks, compiled or not, stay around it. All of it needs the GIL.

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "../held.h"
#include "function_table.h"
#include "interception.h"

class Interventions;

/// A call of a function or of a module's forward, on its way. Everything is borrowed for as long as it takes.
class Call {
 public:
  Call(std::string_view api, std::int64_t number, bool of_module, PyObject* callable,
       const CallArguments& arguments)
      : api_(api), number_(number), of_module_(of_module), callable_(callable), arguments_(&arguments) {}

  /// "Functional.linear"; of a module "Module.layers.0.Linear".
  std::string_view api() const noexcept { return api_; }
  /// 0 for the first one of the step.
  std::int64_t number() const noexcept { return number_; }
  bool of_module() const noexcept { return of_module_; }
  /// That of its record: "Functional.linear.3.forward", "Module.layers.0.Linear.forward.3".
  std::string name() const;
  const CallArguments& arguments() const noexcept { return *arguments_; }
  /// The function itself, without the rules behind; for a call that is made once more.
  PyObject* callable() const noexcept { return callable_; }

  /// Makes the call as the script meant it, or with other arguments: the rules behind the present one have
  /// their turn. A new reference; null with a Python error.
  PyObject* make() const { return make(*arguments_); }
  PyObject* make(const CallArguments& arguments) const;

 private:
  friend class Interventions;
  std::string_view api_;
  std::int64_t number_;
  bool of_module_;
  PyObject* callable_;
  const CallArguments* arguments_;
  const Interventions* rules_ = nullptr;
  std::size_t next_rule_ = 0;
};

/// Answers calls. One that cannot do its work answers with `call.make()` and notes a fault: the training goes
/// on.
class Intervener {
 public:
  virtual ~Intervener() = default;
  /// A new reference; null with a Python error: that of the call itself, never one of the intervener.
  virtual PyObject* answer(const Call& call) = 0;
};

/// Which calls a rule is about; empty lists name all.
struct Selection {
  std::vector<std::string> calls;  // names of calls ("Functional.linear.3.forward") or of functions and
                                   // modules, then each of their calls ("Functional.linear")
  std::int64_t first = 0;          // number of the call in the step, from ...
  std::int64_t last = -1;          // ... to, both included; -1: no limit

  bool names(const Call& call) const;
};

class Interventions {
 public:
  void add(Selection selection, std::shared_ptr<Intervener> intervener);
  void clear() { rules_.clear(); }
  bool empty() const noexcept { return rules_.empty(); }

  /// What the rules make of a call. A new reference; null with a Python error.
  PyObject* answer(Call call) const;

 private:
  friend class Call;
  PyObject* answer_from(std::size_t rule, const Call& call, const CallArguments& arguments) const;
  struct Rule {
    Selection selection;
    std::shared_ptr<Intervener> intervener;
  };
  std::vector<Rule> rules_;
};

/// An observer that sends each call to `inner`, and has the rules make it. `inner` numbers the calls.
std::shared_ptr<CallObserver> with_interventions(std::shared_ptr<CallObserver> inner,
                                                 std::shared_ptr<Interventions> interventions);

/// Sees the calls of functions while it is active, and has the rules answer them.
class FunctionInterventions : public CallObserver,
                              public std::enable_shared_from_this<FunctionInterventions> {
 public:
  explicit FunctionInterventions(bool all_functions) : functions_(all_functions) {}

  const std::shared_ptr<Interventions>& interventions() const noexcept { return interventions_; }
  void set_active(bool active) noexcept { active_ = active; }
  bool active() const noexcept { return active_; }
  /// Calls are numbered from 0 again.
  void begin_step();
  /// Nothing that was made for functions and modules does anything any more.
  void end();

  // ---- as DumpSession has them: msprobe.hooks installs both
  void observe_function(const pybind11::object& function, const std::string& name) {
    functions_.observe(function, name);
  }
  pybind11::object wrapper(const pybind11::object& original, const std::string& name, bool distributed);
  pybind11::object function_mode();
  void push_mode(const pybind11::object& mode);

  /// A callable to stand for `forward` of a module, whose records are named after `name`
  /// ("Module.layers.0.Linear"). The session lives as long as it.
  pybind11::object make_forward(const pybind11::object& forward, const std::string& name);
  PyObject* answer_forward(const std::string& name, PyObject* forward, const CallArguments& arguments);

  Api* api_of(PyObject* function) override;
  bool is_inside_call() const override;
  PyObject* observe(Api& api, PyObject* callable, const CallArguments& arguments) override;

 private:
  std::shared_ptr<Interventions> interventions_ = std::make_shared<Interventions>();
  FunctionTable functions_;
  std::unordered_map<std::string, std::int64_t> module_calls_;  // in this step
  std::vector<Held<>> modes_;                                   // that were pushed
  bool active_ = false;
};

void register_intervention(pybind11::module_& m);

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Calls that are answered instead of only seen: an *observer* (interception.h) tells what a call was given
/// and gave, an *intervener* decides what comes of it.
///
///     an Intervener       makes the call, and whatever else it likes: FreeBenchmark, FragilityProbe,
///                         RoundOtherwise
///     FunctionInterventions the observer that has an intervener answer
///
/// Functions arrive by the same mode and wrappers as in a dump. Modules are answered at their `forward`
/// (make_forward): hooks, compiled or not, stay around it. All of it needs the GIL.

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../held.h"
#include "function_table.h"
#include "interception.h"

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
  /// The function itself, for a call that is made once more.
  PyObject* callable() const noexcept { return callable_; }

  /// Makes the call as the script meant it. A new reference; null with a Python error.
  PyObject* make() const { return arguments_->call(callable_); }

 private:
  std::string_view api_;
  std::int64_t number_;
  bool of_module_;
  PyObject* callable_;
  const CallArguments* arguments_;
};

/// Answers calls. One that cannot do its work answers with `call.make()` and notes a fault: the training goes
/// on.
class Intervener {
 public:
  virtual ~Intervener() = default;
  /// A new reference; null with a Python error: that of the call itself, never one of the intervener.
  virtual PyObject* answer(const Call& call) = 0;
};

/// What is computed is rounded otherwise, as another device or kernel does: each floating-point result is off
/// by a unit in the last place, up or down at random. It is written into the result itself: the graph, and
/// what it saved, stay as they are.
class RoundOtherwise : public Intervener {
 public:
  explicit RoundOtherwise(std::uint64_t seed) : seed_(seed) {}
  PyObject* answer(const Call& call) override;

 private:
  void round(const Call& call, PyObject* result);
  std::uint64_t seed_;
  std::uint64_t calls_ = 0;
  bool has_failed_ = false;
};

/// Sees the calls of functions while it is active, and has the intervener answer them.
class FunctionInterventions : public CallObserver,
                              public std::enable_shared_from_this<FunctionInterventions> {
 public:
  explicit FunctionInterventions(bool all_functions) : functions_(all_functions) {}

  /// Null: calls are made as they are.
  void set_intervener(std::shared_ptr<Intervener> intervener) { intervener_ = std::move(intervener); }
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
  PyObject* answer(const Call& call) const;
  std::shared_ptr<Intervener> intervener_;
  FunctionTable functions_;
  std::unordered_map<std::string, std::int64_t> module_calls_;  // in this step
  std::vector<Held<>> modes_;                                   // that were pushed
  bool active_ = false;
};

void register_intervention(pybind11::module_& m);

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How calls of modules are seen: what torch.nn.Module._call_impl does for a module without hooks is done
/// here, between two calls of an observer. Torch's global hooks would make it take its long way for every
/// module.

#include <pybind11/pybind11.h>

#include <memory>

#include "interception.h"

/// What is done with module calls that come in. All need the GIL, and leave no Python error behind.
class ModuleObserver {
 public:
  virtual ~ModuleObserver() = default;
  /// Whether calls of this module are wanted.
  virtual bool watches(PyObject* module) = 0;
  virtual void begin_module(PyObject* module, const CallArguments& arguments) = 0;
  /// `result` null: the call ended by an exception.
  virtual void end_module(PyObject* module, const CallArguments& arguments, PyObject* result) = 0;

  /// Torch's global forward pre-hook: (module, args).
  void before_module(const pybind11::object& module, const pybind11::tuple& args);
  /// Torch's global forward hook: (module, args, kwargs, result), or (module, args, result) after an
  /// exception.
  void after_module(const pybind11::args& given);
};

/// A new callable to stand for nn.Module._call_impl. A watched module without hooks of its own, in a process
/// without global hooks of others, is called here; another watched one by `with_hooks(original, args,
/// kwargs)`, which has to let torch's hooks tell of it, in torch's order; all others by `original`.
pybind11::object make_module_call(std::shared_ptr<ModuleObserver> observer, const pybind11::object& original,
                                  const pybind11::object& with_hooks);

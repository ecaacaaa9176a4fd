// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How calls of Python code are seen (docs/adr/0007): three ways in, none of which changes the identity of
/// what the script calls, and all of which are gone after capture.
///  * function_mode.h: a __torch_function__ mode in C, for everything that is implemented in C;
///  * Wrapper: a callable in place of another, for the few operators whose mode call does not tell their name
///    (x + y arrives as Tensor.add), and as the target of functions written in Python, whose code is
///    exchanged.

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <string>

/// The arguments of a call, as either calling convention of Python passes them. Borrowed.
struct CallArguments {
  PyObject* const* values = nullptr;  // positional, then those of `names`
  Py_ssize_t positional = 0;
  PyObject* names = nullptr;  // tuple of keyword names, or null
  PyObject* dict = nullptr;   // keywords as a dict instead, or null

  /// Of a tuple, and of a dict or null.
  static CallArguments of(PyObject* args, PyObject* keywords);

  /// Calls `callable` with these arguments; a new reference, null with a Python error.
  PyObject* call(PyObject* callable) const;

  /// Calls use(key, value) for each keyword argument.
  template <typename Use>
  void for_each_keyword(Use use) const {
    for (Py_ssize_t i = 0; names != nullptr && i < PyTuple_GET_SIZE(names); ++i) {
      use(PyTuple_GET_ITEM(names, i), values[positional + i]);
    }
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t position = 0;
    while (dict != nullptr && PyDict_Next(dict, &position, &key, &value) != 0) use(key, value);
  }
};

class MemoryUse;

/// One function that is recorded.
struct Api {
  std::string name;        // "Functional.linear": prefix and name of the records
  std::int64_t count = 0;  // calls in this step
  bool distributed = false;
  Api* when_from_torch = nullptr;  // the same function under its other name, as torch.conv2d of F.conv2d
  std::shared_ptr<const MemoryUse> memory = nullptr;  // what it does with memory; null: not asked yet
};

/// What is done with calls that come in. All need the GIL; a null result means a Python error is set.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  /// A call of an Api, to be made by `call` of `callable`.
  virtual PyObject* observe(Api& api, PyObject* callable, const CallArguments& arguments) = 0;
  /// The Api of a function that reached the mode, or null.
  virtual Api* api_of(PyObject* function) = 0;
  /// Whether the calling thread is inside of an observed call, or of compiled code: what that calls is its
  /// own affair.
  virtual bool is_inside_call() const = 0;
};

/// A new callable that sends calls of `api` to `observer`, which calls `original`. Works as a method, too.
pybind11::object make_wrapper(std::shared_ptr<CallObserver> observer, std::shared_ptr<Api> api,
                              const pybind11::object& original);

/// Sets attributes of a class made in Python, and takes those of `removed` off it, as setattr() and delattr()
/// do, but all at once and without looking for operators in every subclass. So before and after, what stands
/// under a name must be no operator made in C (a wrapper_descriptor): those Python calls without looking for
/// the name.
void set_class_attributes(const pybind11::type& owner, const pybind11::dict& values,
                          const pybind11::list& removed);

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>
#include <torch/csrc/autograd/python_variable.h>

#include <functional>
#include <vector>

#include "../held.h"
#include "interception.h"

/// Walks the tensors of values in the order of collect_tensors(): in lists, tuples and dicts.
/// Calls use(tensor object) until it returns false; false when it did.
bool for_each_tensor(PyObject* value, const std::function<bool(PyObject*)>& use, int depth = 0);

/// Arguments of our own for a call: those given, with some values replaced.
class OwnedArguments {
 public:
  /// Gives what stands for a tensor (or for any other value outside of containers): a new reference, or null
  /// to keep it. May throw.
  using Replace = std::function<pybind11::object(PyObject* value)>;

  OwnedArguments() = default;
  OwnedArguments(const CallArguments& given, const Replace& replace);

  /// As long as this lives.
  CallArguments view() const;
  std::vector<Held<>>& positional() noexcept { return positional_; }
  const pybind11::dict& keywords() const noexcept { return keywords_; }

 private:
  std::vector<Held<>> positional_;
  Held<pybind11::dict> keywords_;
  mutable std::vector<PyObject*> pointers_;
};

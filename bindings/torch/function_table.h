// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/flat_hash_map.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../held.h"
#include "interception.h"

/// The functions whose calls are recorded: their names, and how often each was called in this step. Needs the
/// GIL.
class FunctionTable {
 public:
  /// `all_functions`: functions that nobody added are recorded as well, under the name that
  /// msprobe.hooks.api_list gives them.
  explicit FunctionTable(bool all_functions) : all_functions_(all_functions) {}

  /// The Api of this name, a new one the first time.
  std::shared_ptr<Api> add(const std::string& name, bool distributed);

  /// Calls of `function`, wherever they come from, are calls of the Api `name`. A second name for one
  /// function belongs to calls from code that speaks of torch and not of torch.nn.functional.
  void observe(const pybind11::object& function, const std::string& name);

  /// The Api that a call of `function` by the running Python code belongs to; null: it is not recorded.
  /// Throws what naming an unlisted function throws.
  Api* find(PyObject* function);

  /// The number of a call of this Api that begins: 0 for the first one of the step.
  std::int64_t number_call(Api& api) {
    if (api.count == 0) called_.push_back(&api);
    return api.count++;
  }

  /// Counts from 0 again.
  void begin_step();

 private:
  Api* find_unlisted(PyObject* function);
  bool caller_speaks_of_torch();

  bool all_functions_;
  std::unordered_map<std::string, std::shared_ptr<Api>> by_name_;
  std::vector<Api*> called_;  // in this step
  ska::flat_hash_map<PyObject*, Api*> by_function_;
  std::vector<Held<>> functions_;                                           // keeps the keys above alive
  std::unordered_map<PyObject*, std::pair<Held<>, bool>> speaks_of_torch_;  // by code object
};

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "../python_text.h"
#include "backward_of_call.h"
#include "intervention.h"
#include "native_type.h"
#include "repetition.h"

/// What an intervener that makes calls again tells of a step, beside its own numbers. Needs the GIL.
struct RepeatedCalls {
  std::map<std::string, std::map<std::string, std::int64_t>> left_out;  // reason -> function -> calls
  std::map<std::string, std::string> faults;                            // function -> the first one of ours

  void leave_out(std::string_view api, const std::string& reason);
  void note_fault(std::string_view api, const std::string& what);

  /// Does work of ours: what it throws is a fault, and an error of Python that it leaves is cleared.
  template <class Work>
  void guard(std::string_view api, const Work& work) {
    try {
      work();
    } catch (const std::exception& error) {
      note_fault(api, error_text(error));
    }
    if (PyErr_Occurred() != nullptr) PyErr_Clear();
  }

  /// The training's own call, and then a look at it. `prepare()` gives a std::unique_ptr<Repetition>; null:
  /// the call is only made. `look(repetition, result, first_node)` follows; first_node is for
  /// BackwardOfCall::watch(). As Intervener::answer().
  template <class Prepare, class Look>
  PyObject* make_and_look(const Call& call, const Prepare& prepare, const Look& look) {
    std::unique_ptr<Repetition> repetition;
    const std::uint64_t first_node = next_node();
    guard(call.api(), [&] { repetition = prepare(); });
    PyObject* result = call.make();
    if (result == nullptr || !repetition) return result;
    const KeepPythonError no_error_of_ours;
    guard(call.api(), [&] { look(std::move(repetition), result, first_node); });
    return result;
  }
};

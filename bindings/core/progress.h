// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>

#include "core.h"
#include "msprobe/error.h"

/// Told of the work done and all of it; false: end it.
using Report = std::function<bool(std::size_t, std::size_t)>;

/// For work that counts in 64 bits. `report` has to outlive it.
inline auto progress_of(const Report& report) {
  return [&report](std::uint64_t done, std::uint64_t total) { return report(done, total); };
}

/// Returns what `work(report)` does, called without the GIL. The report looks for Ctrl-C and calls
/// `progress`; what these raise ends the work, which then throws InvalidArgument, and arrives where this was
/// called.
template <typename Work>
auto run_with_progress(const std::optional<py::function>& progress, const Work& work) {
  std::exception_ptr raised;
  const Report report = [&](std::size_t done, std::size_t total) {
    const py::gil_scoped_acquire gil;
    try {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      if (progress) (*progress)(done, total);
      return true;
    } catch (...) {
      raised = std::current_exception();
      return false;
    }
  };
  try {
    const py::gil_scoped_release no_gil;
    return work(report);
  } catch (const msprobe::InvalidArgument&) {
    if (raised) std::rethrow_exception(raised);
    throw;
  }
}

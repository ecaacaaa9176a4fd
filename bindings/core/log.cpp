// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/log.h"

#include <memory>
#include <optional>
#include <string>

#include "../held.h"
#include "core.h"
#include "decoded.h"

namespace {

void set_log_sink(const std::optional<py::function>& sink) {
  if (!sink) {
    msprobe::set_log_sink({});
    return;
  }
  msprobe::set_log_sink([function = std::make_shared<Held<py::function>>(*sink)](msprobe::LogLevel level,
                                                                                 std::string_view message) {
    if (!Py_IsInitialized()) return;
    const py::gil_scoped_acquire gil;
    try {
      (*function)(static_cast<int>(level), readable_text(message));
    } catch (py::error_already_set& e) {
      e.discard_as_unraisable("msprobe log sink");
    }
  });
}

}  // namespace

// The sink gets the level as an index: 0 debug, 1 info, 2 warning, 3 error.
void register_log(py::module_& m) { m.def("set_log_sink", &set_log_sink, py::arg("sink")); }

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <pybind11/pybind11.h>

#include "dump.h"
#include "msprobe/config.h"
#include "msprobe/dump.h"

namespace py = pybind11;

void register_dump_options(py::module_& m) {
  using msprobe::dump::Options;
  py::class_<Options>(m, "DumpOptions", py::is_final())
      .def(py::init([](const msprobe::config::Config* config, bool only_evidence, bool packed, bool sketch) {
             Options options = config == nullptr ? Options() : msprobe::config::dump_options(*config);
             options.only_evidence = only_evidence;
             options.packed |= packed && !options.deferred;
             options.sketch = options.sketch && sketch;
             return options;
           }),
           py::arg("config") = py::none(), py::kw_only(), py::arg("only_evidence") = false,
           py::arg("packed") = false, py::arg("sketch") = true);
}

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "results_watch.h"

#include "msprobe/torch_tensors.h"
#include "torch_values.h"

namespace py = pybind11;

using msprobe::torch_adapter::ResultsWatch;

void register_results_watch(py::module_& m) {
  py::class_<ResultsWatch>(m, "ResultsWatch", py::is_final())
      .def(py::init([](const py::object& result) {
             Tensors tensors;
             collect_tensors(result.ptr(), tensors);
             return std::make_unique<ResultsWatch>(tensors);
           }),
           py::arg("result"))
      .def("is_alive", &ResultsWatch::is_alive);
}

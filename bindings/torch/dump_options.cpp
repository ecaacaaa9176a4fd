// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include "dump.h"
#include "msprobe/dump.h"

namespace py = pybind11;

void register_dump_options(py::module_& m) {
  using msprobe::dump::Options;
  py::class_<Options>(m, "DumpOptions", py::is_final())
      .def(py::init<>())
      .def_readwrite("task", &Options::task)
      .def_readwrite("level", &Options::level)
      .def_readwrite("list", &Options::list)
      .def_readwrite("scope", &Options::scope)
      .def_readwrite("tensor_list", &Options::tensor_list)
      .def_readwrite("forward", &Options::forward)
      .def_readwrite("backward", &Options::backward)
      .def_readwrite("input", &Options::input)
      .def_readwrite("output", &Options::output)
      .def_readwrite("checksum", &Options::checksum)
      .def_readwrite("store_tensors", &Options::store_tensors)
      .def_readwrite("npy", &Options::npy)
      .def_readwrite("data", &Options::data)
      .def_readwrite("hierarchy", &Options::hierarchy)
      .def_readwrite("only_overflow", &Options::only_overflow)
      .def_readwrite("overflow_limit", &Options::overflow_limit)
      .def_readwrite("all_functions", &Options::all_functions)
      .def_readwrite("deferred", &Options::deferred);
}

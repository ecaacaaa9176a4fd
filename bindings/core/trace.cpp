// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/trace.h"

#include "core.h"
#include "msprobe/event_log.h"
#include "msprobe/packed_step.h"

namespace {

using msprobe::trace::ExportReport;

ExportReport export_event_log(const std::filesystem::path& log, const std::filesystem::path& directory) {
  const py::gil_scoped_release no_gil;
  return msprobe::trace::export_event_log(log, directory);
}

// Bytes, or None.
py::object read_packed(const std::filesystem::path& path) {
  const auto content = msprobe::io::read_packed(path);
  return content ? py::object(py::bytes(*content)) : py::object(py::none());
}

}  // namespace

void register_trace(py::module_& m) {
  py::class_<ExportReport>(m, "ExportReport", py::is_final())
      .def_readonly("records", &ExportReport::records)
      .def_readonly("tensors", &ExportReport::tensors)
      .def_readonly("cut", &ExportReport::cut);
  m.def("export_event_log", &export_event_log, py::arg("log"), py::arg("directory"));
  m.def("read_packed", &read_packed, py::arg("path"));
  m.def("is_there", &msprobe::io::is_there, py::arg("path"));
  m.def("unpack_step", &msprobe::io::unpack_step, py::arg("archive"), py::arg("folder"));
}

// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/compare_report.h"

#include "compared_pair.h"
#include "core.h"

void register_compare_report(py::module_& m) {
  using msprobe::compare::ReportRows;

  py::class_<ReportRows>(m, "ReportRows", py::is_final())
      .def_readonly("rows", &ReportRows::rows)
      .def_readonly("shown", &ReportRows::shown)
      .def_readonly("differing", &ReportRows::differing)
      .def_readonly("unmeasured", &ReportRows::unmeasured)
      .def_readonly("worst", &ReportRows::worst)
      .def_readonly("json", &ReportRows::json);

  m.def(
      "report_rows",
      [](ComparedPair& self, std::size_t most) {
        if (self.distances.empty()) self.distances = msprobe::compare::distances(self.pair, self.metrics);
        return msprobe::compare::report_rows(self.pair, self.metrics, self.distances, most);
      },
      py::arg("pair"), py::arg("most"), py::call_guard<py::gil_scoped_release>());
}

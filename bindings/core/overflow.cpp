// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/overflow.h"

#include "core.h"
#include "decoded.h"
#include "msprobe/error.h"
#include "progress.h"

namespace {

using msprobe::overflow::Analysis;
using msprobe::overflow::Origin;

py::list texts(const std::vector<std::string>& lines) {
  py::list result;
  for (const std::string& line : lines) result.append(escaped_text(line));
  return result;
}

Analysis find_origins(const std::filesystem::path& step_dir, unsigned threads,
                      const std::optional<py::function>& progress) {
  return run_with_progress(progress, [&](const Report& report) {
    return msprobe::overflow::find_origins(step_dir, {.threads = threads, .progress = report});
  });
}

}  // namespace

void register_overflow(py::module_& m) {
  py::class_<Origin>(m, "OverflowOrigin", py::is_final())
      .def_readonly("rank", &Origin::rank)
      .def_property_readonly("record", [](const Origin& o) { return escaped_text(o.record); })
      .def_property_readonly("cause", [](const Origin& o) { return msprobe::overflow::cause_name(o.cause); })
      .def_property_readonly("phase", [](const Origin& o) { return msprobe::overflow::phase_name(o.phase); })
      .def_property_readonly("reason", [](const Origin& o) { return escaped_text(o.reason); })
      .def_property_readonly("json", [](const Origin& o) { return escaped_text(o.json); })
      .def_property_readonly("ancestry", [](const Origin& o) { return texts(o.ancestry); })
      .def_property_readonly("stack", [](const Origin& o) { return texts(o.stack); })
      .def_property_readonly("forward_stack", [](const Origin& o) { return texts(o.forward_stack); });
  py::class_<Analysis>(m, "OverflowAnalysis", py::is_final())
      .def_readonly("origins", &Analysis::origins)
      .def_readonly("ranks", &Analysis::ranks)
      .def_readonly("unread_ranks", &Analysis::unread_ranks)
      .def_property_readonly("notes", [](const Analysis& a) { return texts(a.notes); })
      .def_readonly("record_count", &Analysis::record_count)
      .def_readonly("communication_count", &Analysis::communication_count);
  m.def("find_origins", &find_origins, py::arg("step_dir"), py::kw_only(), py::arg("threads") = 0,
        py::arg("progress") = py::none());
}

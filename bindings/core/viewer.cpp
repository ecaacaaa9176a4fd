// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <deque>

#include "core.h"
#include "msprobe/viewer_cell.h"
#include "msprobe/viewer_digest.h"
#include "progress.h"

namespace {

namespace viewer = msprobe::viewer;
using viewer::Cell;

// A cell as Python's json module gives it.
class PythonCell {
 public:
  explicit PythonCell(const py::dict& fields) {
    for (const auto& [name, value] : fields) {
      const Cell::Kind kind = kind_of(value);
      cell_.set(keep(name), kind == Cell::Kind::kNull ? "" : keep(value), kind);
    }
  }

  const Cell& operator*() const noexcept { return cell_; }

 private:
  static Cell::Kind kind_of(py::handle value) {
    if (value.is_none()) return Cell::Kind::kNull;
    if (py::isinstance<py::str>(value)) return Cell::Kind::kText;
    const bool is_number =
        !PyBool_Check(value.ptr()) && (PyLong_Check(value.ptr()) || PyFloat_Check(value.ptr()));
    return is_number ? Cell::Kind::kNumber : Cell::Kind::kOther;
  }

  // Half characters, which JSON may hold, are replaced.
  std::string_view keep(py::handle value) {
    return texts_.emplace_back(py::str(value).attr("encode")("utf-8", "replace").cast<std::string>());
  }

  std::deque<std::string> texts_;
  Cell cell_;
};

std::optional<double> ulps(const py::dict& target, const std::optional<py::dict>& reference) {
  const PythonCell ours(target);
  if (!reference) return viewer::ulps(*ours, nullptr);
  const PythonCell theirs(*reference);
  return viewer::ulps(*ours, &*theirs);
}

void write_digest(const std::filesystem::path& source, int step, int rank,
                  const std::filesystem::path& digest, const std::optional<py::function>& progress) {
  run_with_progress(progress, [&](const Report& report) {
    viewer::write_digest({.path = source, .step = step, .rank = rank}, digest, report);
  });
}

}  // namespace

void register_viewer(py::module_& m) {
  m.attr("DIGEST_FORMAT") = viewer::kDigestFormat;
  m.def("cell_metrics", [] {
    std::vector<std::pair<std::string_view, bool>> metrics;
    for (const auto& [name, small_is_bad] : viewer::cell_metrics()) metrics.emplace_back(name, small_is_bad);
    return metrics;
  });
  m.def("cell_number", &viewer::cell_number, py::arg("text"));
  m.def("cell_ulps", &ulps, py::arg("target"), py::arg("reference").none(true));
  m.def(
      "cell_mark", [](const py::dict& cell) { return viewer::mark_of(*PythonCell(cell)); }, py::arg("cell"));
  m.def("write_digest", &write_digest, py::arg("source"), py::arg("step"), py::arg("rank"), py::arg("digest"),
        py::kw_only(), py::arg("progress") = py::none());
}

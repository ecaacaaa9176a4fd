// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/table.h"

#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "../held.h"
#include "core.h"
#include "msprobe/error.h"
#include "msprobe/sheet.h"

namespace {

namespace io = msprobe::io;

io::RowFill fill_named(const std::optional<std::string>& name) {
  if (!name) return io::RowFill::kNone;
  if (*name == "red") return io::RowFill::kRed;
  if (*name == "yellow") return io::RowFill::kYellow;
  throw msprobe::InvalidArgument(
      "SheetWriter.add_row: expected the fill \"red\", \"yellow\" or None, found \"" + *name + '"');
}

// Cells of one row. They borrow the text of Python objects, which `kept_` holds.
class PythonRow {
 public:
  explicit PythonRow(const py::sequence& cells) : kept_(cells) {
    cells_.reserve(kept_.size());
    for (const py::handle cell : kept_) cells_.push_back(cell_of(cell));
  }

  std::span<const io::Cell> cells() const noexcept { return cells_; }

 private:
  io::Cell cell_of(py::handle cell) {
    if (cell.is_none()) return {};
    if (py::isinstance<py::str>(cell)) return text_of(cell);
    if (py::isinstance<py::bool_>(cell)) return cell.ptr() == Py_True;
    if (py::isinstance<py::float_>(cell)) return cell.cast<double>();
    if (py::isinstance<py::int_>(cell)) {
      int overflow = 0;
      const long long value = PyLong_AsLongLongAndOverflow(cell.ptr(), &overflow);
      if (overflow == 0) return std::int64_t{value};
      others_.push_back(py::str(cell));  // more digits than any number type has
      return text_of(others_.back());
    }
    throw msprobe::InvalidArgument(
        "SheetWriter.add_row: expected None, str, bool, int or float in a cell, found " +
        std::string(Py_TYPE(cell.ptr())->tp_name));
  }

  std::string_view text_of(py::handle text) {
    Py_ssize_t size = 0;
    const char* utf8 = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
    if (utf8 != nullptr) return {utf8, static_cast<std::size_t>(size)};
    PyErr_Clear();  // half a surrogate pair
    const py::bytes bytes = text.attr("encode")("utf-8", "backslashreplace");
    others_.push_back(bytes);
    return std::string_view(bytes);
  }

  Held<py::tuple> kept_;
  std::vector<Held<>> others_;
  std::vector<io::Cell> cells_;
};

// Calls from several threads take turns: the GIL is not held while a row is written.
class PythonSheetWriter {
 public:
  PythonSheetWriter(const std::filesystem::path& path, const io::SheetOptions& options)
      : writer_(std::in_place, path, options) {}

  void begin_sheet(const std::string& name, const std::vector<std::string>& columns) {
    const std::vector<std::string_view> views(columns.begin(), columns.end());
    locked([&](io::SheetWriter& writer) { writer.begin_sheet(name, views); });
  }

  void add_row(const py::sequence& cells, const std::optional<std::string>& fill) {
    const PythonRow row(cells);
    const io::RowFill row_fill = fill_named(fill);
    locked([&](io::SheetWriter& writer) { writer.add_row(row.cells(), row_fill); });
  }

  void commit() {
    locked([](io::SheetWriter& writer) { writer.commit(); });
  }

  void discard() {
    const py::gil_scoped_release no_gil;
    const std::lock_guard lock(mutex_);
    writer_.reset();
  }

 private:
  template <typename Act>
  void locked(const Act& act) {
    const py::gil_scoped_release no_gil;
    const std::lock_guard lock(mutex_);
    if (!writer_) throw msprobe::InvalidArgument("a table was written to after it was discarded");
    act(*writer_);
  }

  std::mutex mutex_;
  std::optional<io::SheetWriter> writer_;
};

py::tuple read_csv(const std::filesystem::path& path) {
  io::Table table;
  {
    const py::gil_scoped_release no_gil;
    table = io::read_csv(path);
  }
  return py::make_tuple(table.header, table.rows);
}

}  // namespace

void register_table(py::module_& m) {
  m.def("read_csv", &read_csv, py::arg("path"));
  m.def(
      "replace_cover",
      [](const std::filesystem::path& path, const std::vector<std::string>& lines) {
        io::replace_cover(path, lines);
      },
      py::arg("path"), py::arg("lines"), py::call_guard<py::gil_scoped_release>());
  py::class_<PythonSheetWriter>(m, "SheetWriter", py::is_final())
      .def(py::init([](const std::filesystem::path& path, unsigned threads, std::string cover) {
             return std::make_unique<PythonSheetWriter>(
                 path, io::SheetOptions{.threads = threads, .cover = std::move(cover)});
           }),
           py::arg("path"), py::kw_only(), py::arg("threads") = 1, py::arg("cover") = "")
      .def("begin_sheet", &PythonSheetWriter::begin_sheet, py::arg("name"), py::arg("columns"))
      .def("add_row", &PythonSheetWriter::add_row, py::arg("cells"), py::arg("fill") = py::none())
      .def("commit", &PythonSheetWriter::commit)
      .def("discard", &PythonSheetWriter::discard)
      .def("__enter__", [](const py::object& self) { return self; })
      .def(
          "__exit__",
          [](PythonSheetWriter& self, const py::object& type, const py::object& /*error*/,
             const py::object& /*traceback*/) {
            if (type.is_none()) {
              self.commit();
            } else {
              self.discard();
            }
          },
          py::arg("type"), py::arg("error"), py::arg("traceback"));
}

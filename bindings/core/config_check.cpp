// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/config_check.h"

#include <cmath>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "../held.h"
#include "core.h"
#include "decoded.h"
#include "msprobe/error.h"

namespace {

namespace config_check = msprobe::config_check;

using config_check::Entry;
using config_check::PackFile;
using config_check::TensorEntries;

// Name, offset, bytes in the file, bytes once unpacked, CRC-32, whether it is deflated.
using PythonEntry = std::tuple<std::string, std::uint64_t, std::uint64_t, std::uint64_t, std::uint32_t, bool>;
using PythonEntries = std::pair<PythonEntry, std::optional<PythonEntry>>;

Entry entry_of(const PythonEntry& entry) {
  const auto& [name, offset, packed, size, crc, deflated] = entry;
  return {name, offset, packed, size, crc, deflated};
}

TensorEntries entries_of(const PythonEntries& entries) {
  TensorEntries result{entry_of(entries.first), std::nullopt};
  if (entries.second) result.fingerprints = entry_of(*entries.second);
  return result;
}

py::bytes content(const PackFile& self, const PythonEntry& entry) {
  std::string result;
  {
    const py::gil_scoped_release no_gil;
    result = self.content(entry_of(entry));
  }
  return py::bytes(result);
}

const char* name_of(config_check::Verdict verdict) {
  using config_check::Verdict;
  switch (verdict) {
    case Verdict::kEqual: return "equal";
    case Verdict::kOtherStatistics: return "statistics";
    case Verdict::kOtherType: return "type";
    case Verdict::kOtherShape: return "shape";
    case Verdict::kOtherElements: return "elements";
    case Verdict::kOtherValues: return "values";
    case Verdict::kNoTensor: return "no tensor";
    case Verdict::kOnlyReference: return "only in the reference";
    case Verdict::kOnlyTarget: return "only in the target";
  }
  throw msprobe::InternalError("a verdict of unknown kind");
}

// As mindstudio-probe has it in a sheet: whole numbers without a point, a word for an infinity.
py::object cell_of(double value) {
  constexpr double kExactIntegers = 9007199254740992.0;
  if (std::isnan(value)) return py::none();
  if (std::isinf(value)) return py::str(value > 0 ? "inf" : "-inf");
  if (std::trunc(value) == value && std::abs(value) < kExactIntegers) {
    return py::int_(static_cast<std::int64_t>(value));
  }
  return py::float_(value);
}

struct Place {
  Held<> step, rank;
};

// Rows of a sheet, and the verdicts of those that are not equal by their place among the rows.
py::tuple sheet_rows(const config_check::TensorComparison& compared, const Place& place) {
  py::list rows(compared.rows.size());
  py::list unequal;
  for (std::size_t i = 0; i < compared.rows.size(); ++i) {
    const auto& [name, verdict, differences] = compared.rows[i];
    const bool equal = verdict == config_check::Verdict::kEqual;
    py::list row(4 + differences.size());
    row[0] = place.step;
    row[1] = place.rank;
    row[2] = readable_text(name);
    row[3] = py::bool_(equal);
    for (std::size_t j = 0; j < differences.size(); ++j) row[4 + j] = cell_of(differences[j]);
    rows[i] = std::move(row);
    if (!equal) unequal.append(py::make_tuple(i, name_of(verdict)));
  }
  py::list problems;
  for (const auto& [of_reference, entry, text] : compared.problems) {
    problems.append(py::make_tuple(of_reference, readable_text(entry), readable_text(text)));
  }
  return py::make_tuple(rows, unequal, problems, compared.complete);
}

py::list compare_packed_tensors(
    const PackFile& reference, const PackFile& target,
    const std::vector<std::tuple<py::object, py::object, PythonEntries, PythonEntries>>& pairs, bool nested,
    bool tolerant, unsigned threads) {
  std::vector<Place> places;
  std::vector<std::pair<TensorEntries, TensorEntries>> native;
  for (const auto& [step, rank, ours, theirs] : pairs) {
    places.push_back({step, rank});
    native.emplace_back(entries_of(ours), entries_of(theirs));
  }
  std::vector<config_check::TensorComparison> compared;
  {
    const py::gil_scoped_release no_gil;
    compared = config_check::compare_tensors(reference, target, native,
                                             {.nested = nested, .tolerant = tolerant, .threads = threads});
  }
  py::list result;
  for (std::size_t i = 0; i < compared.size(); ++i) {
    result.append(sheet_rows(compared[i], places[i]));
    compared[i] = {};
  }
  return result;
}

}  // namespace

void register_config_check(py::module_& m) {
  py::class_<PackFile>(m, "PackFile", py::is_final())
      .def(py::init<const std::filesystem::path&>(), py::arg("path"))
      .def("content", &content, py::arg("entry"));
  m.def("compare_pack_tensors", &compare_packed_tensors, py::arg("reference"), py::arg("target"),
        py::arg("pairs"), py::kw_only(), py::arg("nested"), py::arg("tolerant"), py::arg("threads") = 0);
}
